/** That the table of collective calls, which tests of bad arguments go through, leaves nothing out that is public. */
import { assertEquals } from "@std/assert";
import * as internals from "../../internals.ts";
import * as api from "../../mod.ts";
import { COLLECTIVE_CALLS, LOCAL_CALLS, OTHER_CLASSES, TESTED_ELSEWHERE } from "../cluster/collective_calls.ts";

/** The members of a class, with those of bases that nobody can name. */
function membersOf(prototype: object, named: ReadonlySet<unknown>): string[] {
  const base = Object.getPrototypeOf(prototype);
  const isHidden = base !== null && base !== Object.prototype && !named.has(base.constructor);
  return [...Object.getOwnPropertyNames(prototype), ...isHidden ? membersOf(base, named) : []];
}

/** The names of what a module exports: functions, classes, and members of classes that are not in `others`. */
function callsOf(module: Record<string, unknown>, others: ReadonlySet<string>): string[] {
  return Object.entries(module).flatMap(([name, value]) => {
    if (typeof value !== "function" || others.has(name)) return [];
    const prototype = value.prototype as object | undefined;
    if (prototype === undefined || Object.getOwnPropertyDescriptor(value, "prototype")!.writable) return [name];
    const statics = Object.getOwnPropertyNames(value).filter((key) => !["length", "name", "prototype"].includes(key));
    const members = membersOf(prototype!, new Set(Object.values(module))).filter((key) => key !== "constructor");
    return [name, ...statics.map((key) => `${name}:${key}`), ...members.map((key) => `${name}.${key}`)];
  });
}

Deno.test("every public function and method is in the table, or known to be local", () => {
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
  const others = new Set(Object.values(OTHER_CLASSES).flatMap(words));
  const table = Object.keys(COLLECTIVE_CALLS).map((name) => name.replace(" .", ".").replace(" ", ":"));
  const known = [...table, ...words(LOCAL_CALLS), ...words(TESTED_ELSEWHERE)];
  const there = callsOf({ ...api, ...internals }, others);
  const unknown = there.filter((name) => !known.includes(name));
  assertEquals(unknown, [], "say of these whether all ranks have to call them, in collective_calls.ts");
  assertEquals(known.filter((name) => !there.includes(name)), [], "these are gone");
  assertEquals([...others].filter((name) => !(name in api || name in internals)), [], "these classes are gone");
});
