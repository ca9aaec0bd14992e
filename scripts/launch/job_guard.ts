/**
 * Ending a job whose command is no more, since one that is killed cannot do it.
 *
 * @module
 */
/**
 * Waits for the end of its standard input, which the command holds open while it lives; then ends the launcher like
 * `endJob` does: asks it, and after a while kills it and all that it had started.
 */
const script = `
trap '' INT TERM HUP
read -r _
family=$1
grown=yes
while [ -n "$grown" ]; do
  grown=
  for stat in /proc/[0-9]*/stat; do
    read -r line < "$stat" || continue
    process=\${line%% *}
    set -- "$1" \${line##*) }
    case " $family " in *" $process "*) continue ;; esac
    case " $family " in *" $3 "*) family="$family $process"; grown=yes ;; esac
  done
done 2>/dev/null
kill -TERM "$1" 2>/dev/null
tenths=30
while [ $tenths -gt 0 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; tenths=$((tenths - 1)); done
kill -KILL $family 2>/dev/null
`;

/** Watch over a launcher until disposed of. */
export function guardJob(launcher: Deno.ChildProcess): AsyncDisposable {
  const guard = new Deno.Command("sh", {
    args: ["-c", script, "sh", String(launcher.pid)],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      guard.kill("SIGKILL");
      await guard.status;
      await guard.stdin.abort().catch(() => {});
    },
  };
}
