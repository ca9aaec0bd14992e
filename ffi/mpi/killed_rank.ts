/**
 * Telling which rank was killed, under Hydra, which tells the number of a process, and often that of one that it has ended
 * itself since.
 *
 * A shell waits for the end of the rank: it reads a pipe that nobody writes to. As a child of the rank it also has its socket
 * to Hydra, which takes no notice of the rank's end before the shell's. So the other ranks are still there then, unless it
 * is Hydra that has killed this one.
 *
 * @module
 */
import { libcFunctions } from "../memory.ts";

const LIBC_SYMBOLS = {
  /** `FILE* popen(const char* command, const char* type)` */
  popen: { parameters: ["buffer", "buffer"], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

/** As long as Hydra may take to kill the ranks of a machine, one after the other. */
const KILLING_SECONDS = 0.5;

/**
 * What the shell does, as one that has read a process's line in /proc: how it has ended comes last; its state after the name,
 * and as the sixth word after that what says by 4 that it is about to end, which may take long. Without another rank on the
 * machine nobody knows whether Hydra has ended this one.
 */
const script = (rank: number, process: number, others: readonly number[]) => `
read -r _
for pause in 0 ${KILLING_SECONDS}; do
  [ $pause = 0 ] || sleep $pause
  { read -r line </proc/${process}/stat; } 2>/dev/null || exit
  signal=$((\${line##* } & 127))
  [ $signal = 0 ] && exit
done
for other in ${others.join(" ")}; do
  { read -r line </proc/$other/stat; } 2>/dev/null || continue
  set -- \${line##*) }
  [ $1 = Z ] || [ $(($7 & 4)) != 0 ] && continue
  echo "distmath: rank ${rank}, process ${process}, was ended by signal $signal (SIG$(kill -l $signal))" >&2
  exit
done
`;

/** Have it told if this rank is ended by a signal; `others` are the processes of the machine's other ranks. */
export function tellIfKilled(rank: number, others: readonly number[]): void {
  if (others.length === 0) return;
  const [command, type] = [script(rank, Deno.pid, others), "we"].map((text) => new TextEncoder().encode(`${text}\0`));
  libcFunctions(LIBC_SYMBOLS).popen(command, type);
}
