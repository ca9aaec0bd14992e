/**
 * The declarations of `ffi/` against facts read from the vendors' headers.
 *
 * @module
 */
import { sizeOfField } from "../../ffi/struct.ts";
import { constantsOf, functionsOf, type LibraryDeclaration } from "./declarations.ts";

/** What the headers say about one library. */
export interface LibraryFacts {
  /** Each function's signature, such as `i32(pointer, u64)`. */
  functions: Record<string, string>;
  /** The values of enumerators and macros. */
  constants: Record<string, number>;
  /** Structs: bytes in all, and offset and bytes of each field. */
  structs: Record<string, { size: number; fields: Record<string, [offset: number, size: number]> }>;
}

/** What the headers of a set of wheels say. */
export interface Snapshot {
  /** The wheels, as `name==version`. */
  wheels: string[];
  /** The facts, by library. */
  libraries: Record<string, LibraryFacts>;
}

/** The types of Deno that may stand for a class of C types. A pointer is a buffer, an address, or a function. */
const SERVES: Record<string, readonly string[]> = {
  pointer: ["buffer", "u64", "usize", "pointer", "function"],
  u64: ["u64", "usize"],
  i64: ["i64", "isize"],
};

function sizeOf(type: Deno.NativeType): number {
  if (typeof type === "object") return structSize(type.struct);
  const bits = /^[iuf](8|16|32|64)$/.exec(type);
  return bits ? Number(bits[1]) / 8 : type === "bool" ? 1 : 8;
}

function alignmentOf(type: Deno.NativeType): number {
  return typeof type === "object" ? Math.max(...type.struct.map(alignmentOf)) : sizeOf(type);
}

function structSize(fields: readonly Deno.NativeType[]): number {
  const roundUp = (size: number, alignment: number) => Math.ceil(size / alignment) * alignment;
  const end = fields.reduce((size, field) => roundUp(size, alignmentOf(field)) + sizeOf(field), 0);
  return roundUp(end, Math.max(...fields.map(alignmentOf)));
}

function fits(declared: Deno.NativeResultType, actual: string): boolean {
  if (typeof declared === "object") return actual === `struct:${structSize(declared.struct)}`;
  return (SERVES[actual] ?? [actual]).includes(declared);
}

function show(type: Deno.NativeResultType): string {
  return typeof type === "object" ? `struct:${structSize(type.struct)}` : type;
}

function* functionFaults(library: LibraryDeclaration, facts: LibraryFacts): Generator<string> {
  for (const { symbol, key, declaration } of functionsOf(library)) {
    const signature = facts.functions[symbol];
    if (signature === undefined) {
      yield `${key}: the headers have no function ${symbol}`;
      continue;
    }
    const [, result, list] = /^(.*?)\((.*)\)$/.exec(signature)!;
    const parameters = list === "" ? [] : list.split(", ");
    if (parameters.length !== declaration.parameters.length) {
      yield `${key}: ${declaration.parameters.length} parameters, but C has ${parameters.length}`;
      continue;
    }
    for (const [index, parameter] of declaration.parameters.entries()) {
      if (!fits(parameter, parameters[index])) {
        yield `${key}: parameter ${index + 1} is ${show(parameter)}, but C has ${parameters[index]}`;
      }
    }
    if (!fits(declaration.result, result)) yield `${key}: the result is ${show(declaration.result)}, C has ${result}`;
  }
}

function* constantFaults(library: LibraryDeclaration, facts: LibraryFacts): Generator<string> {
  for (const [name, value] of constantsOf(library)) {
    const actual = facts.constants[name];
    if (actual !== value) yield `${name}: ${value}, but C has ${actual ?? "no such constant"}`;
  }
}

function* structFaults(library: LibraryDeclaration, facts: LibraryFacts): Generator<string> {
  for (const { name, size, fields } of library.structs) {
    const struct = facts.structs[name];
    if (struct === undefined) {
      yield `${name}: the headers have no such struct`;
      continue;
    }
    if (size !== struct.size) yield `${name}: ${size} bytes, but C has ${struct.size}`;
    for (const [field, [offset, type]] of Object.entries(fields)) {
      const actual = struct.fields[field];
      if (actual === undefined) yield `${name}.${field}: C has no such field`;
      else if (offset !== actual[0] || sizeOfField(type) !== actual[1]) {
        yield `${name}.${field}: ${sizeOfField(type)} bytes at ${offset}, but C has ${actual[1]} at ${actual[0]}`;
      }
    }
  }
}

/** What the facts hold that is declared no longer: the snapshot has to be made again. */
function* staleFacts(library: LibraryDeclaration, facts: LibraryFacts): Generator<string> {
  const declared = new Set([
    ...functionsOf(library).map(({ symbol }) => symbol),
    ...constantsOf(library).map(([name]) => name),
    ...library.structs.map(({ name }) => name),
    ...library.structs.flatMap(({ name, fields }) => Object.keys(fields).map((field) => `${name}.${field}`)),
  ]);
  const known = [
    ...Object.keys(facts.functions),
    ...Object.keys(facts.constants),
    ...Object.keys(facts.structs),
    ...Object.entries(facts.structs).flatMap(([name, { fields }]) =>
      Object.keys(fields).map((field) => `${name}.${field}`)
    ),
  ];
  for (const name of known) if (!declared.has(name)) yield `${name}: in the snapshot, but declared no longer`;
}

/** Everything in which the declarations differ from the headers; empty when all is well. */
export function findFaults(declarations: readonly LibraryDeclaration[], snapshot: Snapshot): string[] {
  return declarations.flatMap((library) => {
    const facts = snapshot.libraries[library.name];
    if (facts === undefined) return [`${library.name}: not in the snapshot`];
    return [functionFaults, constantFaults, structFaults, staleFacts]
      .flatMap((faults) => [...faults(library, facts)])
      .map((fault) => `${library.name}: ${fault}`);
  });
}
