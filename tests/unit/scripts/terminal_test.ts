import { assertEquals, assertThrows } from "@std/assert";
import { fileURLToPath } from "node:url";
import {
  checkWritable,
  CommandError,
  formatBytes,
  Help,
  oneLine,
  type Options,
  parseCommand,
  parseCount,
  parseSeconds,
  splitAtPositional,
  userPath,
} from "../../../scripts/terminal.ts";

const options = {
  ranks: { type: "string", short: "n" },
  quiet: { type: "boolean" },
} as const satisfies Options;

const parse = (...args: string[]) => parseCommand(args, options, "how it is called");

Deno.test("parseCommand() ends the command at an option that it does not know", () => {
  assertEquals(parse("-n", "4", "a.ts").values.ranks, "4");
  const error = assertThrows(() => parse("--rank", "4"), CommandError, "--rank");
  assertEquals((error as CommandError).code, 2);
  assertEquals(error.message.includes("\n"), false);
  assertEquals(error.message, "there is no option --rank; did you mean --ranks? Allowed: --ranks, --quiet, --help");
  assertThrows(() => parse("-x"), CommandError, "there is no option -x. Allowed: --ranks, --quiet, --help");
  assertThrows(() => parse("-n"), CommandError, "argument missing");
});

Deno.test("parseCommand() ends a command that is asked for help by its text", () => {
  for (const flag of ["--help", "-h"]) assertThrows(() => parse("a.ts", flag), Help, "how it is called");
});

Deno.test("parseCommand() takes negative numbers as values", () => {
  for (const number of ["-2.5", "-.5", "-1e-3", "-4"]) {
    const { values, positionals } = parse("a.ts", "--ranks", number, "--quiet", "b.ts");
    assertEquals([values.ranks, values.quiet, positionals], [number, true, ["a.ts", "b.ts"]]);
  }
  assertThrows(() => parse("--quiet", "-2.5"), CommandError, "-2");
  assertThrows(() => parse("--ranks", "--quiet"), CommandError, "--ranks");
});

Deno.test("splitAtPositional() leaves a script its own options", () => {
  assertEquals(splitAtPositional(["-n", "4", "a.ts", "-n", "--x"], options), [["-n", "4"], ["a.ts", "-n", "--x"]]);
  assertEquals(splitAtPositional(["--quiet", "a.ts"], options), [["--quiet"], ["a.ts"]]);
  assertEquals(splitAtPositional(["-n", "4"], options), [["-n", "4"], []]);
});

Deno.test("parseCount() and parseSeconds() take positive numbers", () => {
  assertEquals(parseCount("12", "-n"), 12);
  for (const text of ["0", "-1", "1.5", "two", "", "2147483648", "4294967298"]) {
    assertThrows(() => parseCount(text, "-n"), CommandError, "-n takes");
  }
  assertEquals(parseSeconds("0.5", "--timeout"), 0.5);
  for (const text of ["0", "-1", "soon", "", "Infinity", "2147484"]) {
    assertThrows(() => parseSeconds(text, "--timeout"), CommandError, "--timeout takes");
  }
});

Deno.test("userPath() starts from the folder where the task was called", () => {
  const [before, cwd] = [Deno.env.get("INIT_CWD"), Deno.cwd()];
  const root = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
  try {
    Deno.chdir(root);
    Deno.env.set("INIT_CWD", "/somewhere");
    assertEquals(userPath("a.ts"), "/somewhere/a.ts");
    assertEquals(userPath("/else/a.ts"), "/else/a.ts");
    // A task of somebody else's has paths of its own folder.
    Deno.chdir("/");
    assertEquals(userPath("a.ts"), "/a.ts");
    Deno.chdir(root);
    Deno.env.delete("INIT_CWD");
    assertEquals(userPath("a.ts"), `${root}/a.ts`);
  } finally {
    Deno.chdir(cwd);
    if (before !== undefined) Deno.env.set("INIT_CWD", before);
  }
});

Deno.test("checkWritable() refuses what cannot be written, and leaves no file behind", () => {
  const folder = Deno.makeTempDirSync({ prefix: "distmath-test-" });
  try {
    const missing = `${folder}/none/a.xml`;
    const words = `--junit: ${missing} cannot be written: `;
    const error = assertThrows(() => checkWritable(missing, "--junit"), CommandError, words);
    assertEquals((error as CommandError).code, 2);
    assertEquals(error.message.endsWith(`; make the folder ${folder}/none, or name another file`), true, error.message);
    assertThrows(() => checkWritable(folder, "--json"), CommandError, `--json: ${folder} cannot be written: `);
    checkWritable(`${folder}/new.xml`, "--junit");
    Deno.writeTextFileSync(`${folder}/old.xml`, "kept");
    checkWritable(`${folder}/old.xml`, "--junit");
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["old.xml"]);
    assertEquals(Deno.readTextFileSync(`${folder}/old.xml`), "kept");
    Deno.symlinkSync("new.xml", `${folder}/link.xml`);
    checkWritable(`${folder}/link.xml`, "--junit");
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), ["link.xml", "old.xml"]);
    checkWritable("/dev/stdout", "--tap");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("formatBytes() and oneLine() are for people", () => {
  assertEquals(
    [0, 999, 1500, 12_345, 278_000_000, 1.2e9].map(formatBytes),
    ["0 B", "999 B", "1.5 kB", "12 kB", "278 MB", "1.2 GB"],
  );
  assertEquals(oneLine(new Error("a\n  b\nc")), "a b c");
});
