/**
 * How to call the tasks that messages name.
 *
 * @module
 */

const main = new URL("../scripts/main.ts", import.meta.url).href;

/** The command line of a task with its arguments: by its name where the library is on this machine, else by its URL. */
export function taskCommand(task: string): string {
  return main.startsWith("file:") ? `deno task ${task}` : `deno run -A ${main} ${task}`;
}
