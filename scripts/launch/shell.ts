/**
 * Words as a shell reads them.
 *
 * @module
 */

/** A text as a shell reads it. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A program whose words no launcher takes for its own: one that is ":" would begin another program. */
export function withoutColons(program: readonly string[]): readonly string[] {
  return program.includes(":") ? ["sh", "-c", `exec ${program.map(quote).join(" ")}`] : program;
}
