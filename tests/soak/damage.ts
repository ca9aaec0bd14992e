/** Damage to files: bytes that are changed, cut off, put in, or written over by what a header should not say. */
import type { Draw } from "./draw.ts";

/** A way to damage a file. */
export type Damage = (file: Uint8Array) => Uint8Array;

const TEXTS = [
  "'",
  "(",
  ")",
  "{",
  "}",
  ",",
  ":",
  "9".repeat(30),
  "-1",
  "True",
  "None",
  "\x1b[2J",
  "\n",
  "\0",
  "L",
  "1.5",
];

/** One to three of the ways, drawn by chance. */
export function damaged(draw: Draw): Damage {
  const steps = Array.from({ length: draw.between(1, 3) }, () => oneOf(draw));
  return (file) => steps.reduce((bytes, step) => step(bytes), file);
}

function oneOf(draw: Draw): Damage {
  const [where, value, length] = [draw.below(2 ** 31), draw.below(256), draw.between(1, 40)];
  const text = new TextEncoder().encode(draw.pick(TEXTS).repeat(draw.once(10) ? 2000 : 1));
  // Mostly in the header, whose text ends before byte 128.
  const isInHeader = !draw.once(5);
  const place = (file: Uint8Array) => where % Math.max(1, Math.min(file.length, isInHeader ? 100 : file.length));
  switch (draw.below(6)) {
    case 0:
      return (file) => file.length === 0 ? file : file.with(place(file), value);
    case 1:
      return (file) => file.slice(0, place(file));
    case 2:
      return (file) => join(file.slice(0, place(file)), text, file.slice(place(file)));
    case 3:
      return (file) => join(file.slice(0, place(file)), text, file.slice(place(file) + text.length));
    case 4:
      return (file) => join(file.slice(0, place(file)), file.slice(place(file) + length));
    default:
      return (file) => join(file.slice(0, place(file) + length), file.slice(place(file)));
  }
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
