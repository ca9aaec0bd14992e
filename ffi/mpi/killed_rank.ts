/**
 * Telling which rank was killed, under Hydra, which tells the number of a process, and often that of one that it has ended
 * itself since.
 *
 * A shell waits for the end of the rank: it reads a pipe to which the rank writes only when it ends by itself. As a child of
 * the rank it is in its process group, which is what Hydra kills: a shell that outlives its rank knows that it was somebody
 * else. It also has the rank's socket to Hydra, which takes no notice of the rank's end before the shell's; but where another
 * rank prints, Hydra may have waited for the process before the shell looks, and nobody else can know the signal then.
 *
 * @module
 */
import { TextAtExit } from "../at_exit.ts";
import { libcFunctions, toCString } from "../memory.ts";

const LIBC_SYMBOLS = {
  /** `FILE* popen(const char* command, const char* type)` */
  popen: { parameters: ["buffer", "buffer"], result: "u64" },
  /** `int fileno(FILE* stream)` */
  fileno: { parameters: ["u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** As long as it may take to kill the processes of a machine, one after the other. */
const KILLING_SECONDS = 0.5;

/**
 * What the shell does, as one that has read a process's line in /proc: how it has ended comes last; its state after the name,
 * and as the sixth word after that what says by 4 that it is about to end, which may take long. Ranks also end with what has
 * started them, which is dead then, as the others are.
 */
const script = (rank: number, process: number, others: readonly number[]) => `
ends=
while read -r word; do ends=$word; done
if { read -r line </proc/${process}/stat; } 2>/dev/null; then
  signal=$((\${line##* } & 127))
  [ $signal = 0 ] && exit
  how="ended by signal $signal (SIG$(kill -l $signal))"
else
  [ "$ends" ] && exit
  how="killed; the launcher tells by which signal"
fi
sleep ${KILLING_SECONDS}
for other in ${others.join(" ")}; do
  { read -r line </proc/$other/stat; } 2>/dev/null || continue
  set -- \${line##*) }
  [ $1 = Z ] || [ $(($7 & 4)) != 0 ] && continue
  echo "distmath: rank ${rank}, process ${process}, was $how" >&2
  exit
done
`;

/** What the rank writes when it ends by itself. */
export const BY_ITSELF = "by itself\n";

let pipeToShell = 0;

/** The pipe by which {@linkcode BY_ITSELF} reaches the shell, for who ends the process without its exit handlers; 0 if none. */
export function shellOfRank(): number {
  return pipeToShell;
}

/** Have it told if this rank is ended by a signal; `others` are the processes of the machine's other ranks. */
export function tellIfKilled(rank: number, others: readonly number[]): void {
  const { popen, fileno } = libcFunctions(LIBC_SYMBOLS);
  const stream = popen(toCString(script(rank, Deno.pid, [Deno.ppid, ...others])), toCString("we"));
  if (stream === 0n) return;
  pipeToShell = fileno(stream);
  new TextAtExit(pipeToShell).set(BY_ITSELF);
}
