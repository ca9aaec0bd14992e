import { assertEquals } from "@std/assert";
import { runVisibly } from "../../../../scripts/launch/visible_job.ts";
import { pageOf, reducing } from "../../runtime/pages.ts";

Deno.test("runVisibly() tells where the ranks were at the time limit", async () => {
  const folder = Deno.makeTempDirSync();
  const { write } = Deno.stderr;
  const said: string[] = [];
  Deno.stderr.write = (bytes) => {
    said.push(new TextDecoder().decode(bytes));
    return Promise.resolve(bytes.length);
  };
  try {
    const path = `${folder}/mpirun`;
    const script = `#!/bin/sh\ncat ${folder}/page > "$DISTMATH_PRESENCE"\nexec sleep 60\n`;
    Deno.writeTextFileSync(path, script, { mode: 0o755 });
    Deno.writeFileSync(`${folder}/page`, new Uint8Array(pageOf([reducing, { CALLS: 0 }]).buffer));
    const launcher = { path, kind: "open_mpi", version: "5.0.11", source: "" } as const;
    const { code } = await runVisibly(launcher, { ranks: 2, program: [], timeoutSeconds: 3 });
    assertEquals(code, 124);
  } finally {
    Deno.stderr.write = write;
    Deno.removeSync(folder, { recursive: true });
  }
  assertEquals(said.join("").trimEnd().split("\n"), [
    "error: the job did not end within 3 s and was ended; the ranks of this machine were here:",
    "  rank 0 waits in MPI_Allreduce, collective call 12",
    "  rank 1 has not arrived: it is in no call that waits",
  ]);
});
