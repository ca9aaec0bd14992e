/** Which cases of a table are tried. */

/**
 * Whether a case, by its name, is among those that so many ranks try: one in `every`, others on other numbers of ranks. A hash
 * decides, which is in step with no loop of a table.
 */
export function isSampled(name: string, ranks: number, every: number): boolean {
  return hash(name) % every === ranks % every;
}

/** FNV-1a, and a last mixing of its bits, of which the lowest know too little of the last letters. */
function hash(text: string): number {
  let bits = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) bits = Math.imul(bits ^ text.charCodeAt(i), 0x01000193);
  bits = Math.imul(bits ^ bits >>> 16, 0x85ebca6b);
  bits = Math.imul(bits ^ bits >>> 13, 0xc2b2ae35);
  return (bits ^ bits >>> 16) >>> 0;
}
