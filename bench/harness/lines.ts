/**
 * Text lines over a connection.
 *
 * @module
 */

/** The lines that arrive, until the other side hangs up. */
export async function* linesOf(connection: Deno.Conn): AsyncGenerator<string, void> {
  let rest = "";
  for await (const text of connection.readable.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
}

/** Send one line. */
export async function sendLine(connection: Deno.Conn, line: string): Promise<void> {
  const bytes = new TextEncoder().encode(`${line}\n`);
  for (let sent = 0; sent < bytes.length;) sent += await connection.write(bytes.subarray(sent));
}
