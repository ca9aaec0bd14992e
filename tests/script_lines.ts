/** Where in a script something stands, as messages name it. */

/** A line of a script by what it has in it: a pattern that its name, number and some column match. */
export function lineOf(script: string, text: string): RegExp {
  const lines = Deno.readTextFileSync(script).split("\n");
  const found = lines.flatMap((line, i) => line.includes(text) ? [i + 1] : []);
  if (found.length !== 1) throw new Error(`${found.length} lines of ${script} have ${text}`);
  return RegExp(String.raw`${script.replace(/^.*\//, "").replaceAll(".", "\\.")}:${found[0]}:\d+`);
}
