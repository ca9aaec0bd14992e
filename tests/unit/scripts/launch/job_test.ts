import { assertEquals, assertRejects } from "@std/assert";
import { bytesOf } from "../../../../scripts/launch/bytes_as_text.ts";
import { type JobOptions, runJob } from "../../../../scripts/launch/job.ts";

/** Run a shell script in place of a launcher. */
async function runAs(script: string, job: Pick<JobOptions, "onLine" | "isInteractive" | "signal">) {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, `#!/bin/sh\n${script}\n`);
    Deno.chmodSync(path, 0o755);
    const launcher = { path, kind: "open_mpi", version: "5.0.11", source: "" } as const;
    return await runJob(launcher, { ranks: 1, program: [], ...job });
  } finally {
    Deno.removeSync(path);
  }
}

Deno.test("runJob() ends a job at once whose signal has aborted before", async () => {
  assertEquals((await runAs("exec sleep 5", { onLine: () => {}, signal: AbortSignal.abort() })).code, 143);
});

Deno.test("runJob() passes on every byte, blanks in parts of lines and what is no UTF-8 among them", async () => {
  const script = String.raw`printf 'a'; sleep 0.3; printf ' '; sleep 0.3; printf 'b\r\n\377\303\n\357\273\277\303'
    sleep 0.3; printf '\251'; sleep 0.3; printf '  '`;
  let told: number[] = [];
  const onLine: JobOptions["onLine"] = (_stream, line, isComplete) => {
    told = [...told, ...bytesOf(line), ...isComplete ? [10] : []];
  };
  const text = [0x61, 0x20, 0x62, 13, 10, 0xff, 0xc3, 10, 0xef, 0xbb, 0xbf, 0xc3, 0xa9, 0x20, 0x20];
  for (const isInteractive of [true, false]) {
    told = [];
    assertEquals((await runAs(script, { onLine, isInteractive })).code, 0);
    assertEquals(told, text);
  }
});

Deno.test("runJob() ends a job whose output cannot be passed on, parts of lines too", async () => {
  const onLine = () => {
    throw new RangeError("full");
  };
  for (const script of ["printf a; exec sleep 60", "echo a; exec sleep 60"]) {
    await assertRejects(() => runAs(script, { onLine, isInteractive: true }), RangeError, "full");
  }
});
