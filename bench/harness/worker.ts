/**
 * The side of a benchmark that runs on a rank: it waits for orders without using the processor, and answers with times.
 *
 * @module
 */
import { linesOf, sendLine } from "./lines.ts";

/** Does what an order says and returns the seconds that each call took. */
export type Handler = (...words: string[]) => readonly number[] | Promise<readonly number[]>;

/** The environment variable that holds the path of the driver's socket. */
export const socketVariable = "DISTMATH_BENCH_SOCKET";

/** Seconds that `repeats` calls took, one by one; `before` is not measured. */
export function timeEach(repeats: number, run: () => void, before: () => void = () => {}): number[] {
  return Array.from({ length: repeats }, () => {
    before();
    const start = performance.now();
    run();
    return (performance.now() - start) / 1000;
  });
}

/** Seconds a call, averaged over chunks of `calls` calls: for calls that are too short for the clock. */
export function timeChunks(chunks: number, calls: number, run: () => void, before?: () => void): number[] {
  const chunk = (): void => {
    for (let call = 0; call < calls; call++) run();
  };
  return timeEach(chunks, chunk, before).map((seconds) => seconds / calls);
}

/** Obey the driver's orders until it hangs up. */
export async function serve(rank: number, handlers: Record<string, Handler>): Promise<void> {
  const path = Deno.env.get(socketVariable);
  if (path === undefined) {
    throw new Error(`${socketVariable} is not set: benchmarks are started by \`deno task bench\`.`);
  }
  const connection = await Deno.connect({ transport: "unix", path });
  await sendLine(connection, String(rank));
  for await (const line of linesOf(connection)) {
    const [name, ...words] = line.split(" ");
    try {
      await sendLine(connection, JSON.stringify(await handlers[name](...words)));
    } catch (error) {
      await sendLine(connection, JSON.stringify({ error: error instanceof Error ? error.stack : String(error) }));
    }
  }
}
