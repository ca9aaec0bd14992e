import { assertEquals } from "@std/assert";
import { runJob } from "../../../../scripts/launch/job.ts";

Deno.test("runJob() ends a job at once whose signal has aborted before", async () => {
  const path = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(path, "#!/bin/sh\nexec sleep 5\n");
    Deno.chmodSync(path, 0o755);
    const launcher = { path, kind: "open_mpi", version: "5.0.11", source: "" } as const;
    const job = { ranks: 1, program: [], onLine: () => {} };
    assertEquals((await runJob(launcher, { ...job, signal: AbortSignal.abort() })).code, 143);
  } finally {
    Deno.removeSync(path);
  }
});
