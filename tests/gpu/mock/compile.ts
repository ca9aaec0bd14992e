/** Compile a mock library: what its source lacks of some declarations answers "not supported". */
import { fileURLToPath } from "node:url";

/** The C names of a table; a member may be another name for a C function. */
function namesOf(table: Deno.ForeignLibraryInterface): string[] {
  return Object.entries(table).flatMap(([key, symbol]) => {
    if ("optional" in symbol && symbol.optional) return [];
    return [("name" in symbol && symbol.name) || key];
  });
}

function run(command: string, ...args: string[]): void {
  const { success, stderr } = new Deno.Command(command, { args }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** What a mock library is made of. */
export interface MockLibrary {
  /** Where it goes. */
  readonly path: string;
  /** The file of C++ beside this one. */
  readonly source: string;
  /** The declarations. */
  readonly tables: readonly Deno.ForeignLibraryInterface[];
  /** What the functions that it lacks return. */
  readonly notSupported: number;
  /** More arguments for the compiler: definitions first. */
  readonly flags: readonly string[];
}

/** Compile it. Needs gcc and g++. */
export function compileMock({ path, source, tables, notSupported, flags }: MockLibrary): void {
  const file = fileURLToPath(new URL(source, import.meta.url));
  const written = Deno.readTextFileSync(file);
  const missing = new Set(tables.flatMap(namesOf).filter((name) => !new RegExp(`\\b${name}\\b`).test(written)));
  const stubs = `${path}.stubs`;
  Deno.writeTextFileSync(
    `${stubs}.c`,
    [...missing].map((name) => `int ${name}(void) { return ${notSupported}; }\n`).join(""),
  );
  run("gcc", "-fPIC", "-c", "-o", `${stubs}.o`, `${stubs}.c`);
  run("g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-pthread", "-o", path, file, `${stubs}.o`, ...flags);
}
