import { assertEquals } from "@std/assert";
import { BoilerplateFilter } from "../../../../scripts/launch/job_output.ts";
import { JobEnd } from "../../../../scripts/launch/job_end.ts";
import type { LauncherKind } from "../../../../scripts/launch/launcher.ts";

function filtered(kind: LauncherKind, lines: string[], ranks = 2): { shown: string[]; signal: string | null } {
  const end = new JobEnd();
  const filter = new BoilerplateFilter(kind, end, ranks);
  const shown = [...lines.flatMap((line) => filter.push(line)), ...filter.end()];
  return { shown, signal: end.signal };
}

const dashes = "-".repeat(74);
const error = [
  "error: Uncaught (in promise) Error: boom",
  "second line of the message",
  "throw new Error(message);",
  "      ^",
  "    at file:///job.ts:3:23",
  "Caused by: Error: why",
  "    at file:///job.ts:3:67",
];

Deno.test("BoilerplateFilter drops what Open MPI 4.1 adds", () => {
  const { shown, signal } = filtered("open_mpi", [
    "before",
    ...error,
    dashes,
    "Primary job  terminated normally, but 1 process returned",
    "a non-zero exit code. Per user-direction, the job has been aborted.",
    dashes,
    dashes,
    "mpirun.openmpi detected that one or more processes exited with non-zero status, thus causing",
    "the job to be terminated. The first process to do so was:",
    "",
    "  Process name: [[30525,1],1]",
    "  Exit code:    1",
    dashes,
    "[vm:07219] [[28877,0],0] ORTE_ERROR_LOG: Out of resource in file ../../../orte/util/show_help.c at line 501",
    "[vm:07219] Delaying for 1 seconds before aborting",
    "[vm:07219] 1 more process has sent help message help-mpi-api.txt / mpi-abort",
    '[vm:07219] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages',
    "after",
  ]);
  assertEquals(shown, ["before", ...error, "after"]);
  assertEquals(signal, null);
});

Deno.test("BoilerplateFilter drops what Open MPI 5 adds and keeps the signal", () => {
  const { shown, signal } = filtered("open_mpi", [
    "Abort is in progress...hit ctrl-c again to forcibly terminate",
    dashes,
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
    "  Proc: [[61296,1],1]",
    "  Errorcode: 42",
    "",
    "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
    dashes,
    dashes,
    "prterun noticed that process rank 1 with PID 7359 on node vm exited on",
    "signal 9 (Killed).",
    dashes,
  ]);
  assertEquals(shown, []);
  assertEquals(signal, "rank 1 was ended by signal 9 (Killed)");
});

Deno.test("BoilerplateFilter drops what Hydra adds and keeps the signal", () => {
  const fence = "=".repeat(83);
  const { shown, signal } = filtered("mpich", [
    "before",
    fence,
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   PID 7502 RUNNING AT vm",
    fence,
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    "This typically refers to a problem with your application.",
    "Please see the FAQ page for debugging suggestions",
    "Abort(42) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 42) - process 1",
    "[proxy:0:0@vm] HYD_pmcd_pmip_control_cmd_cb (pm/pmiserv/pmip_cb.c:480): assert (!closed) failed",
  ]);
  assertEquals(shown, ["before"]);
  assertEquals(signal, "a rank was ended by signal 9 (Killed)");
});

Deno.test("BoilerplateFilter drops what Slurm adds, and JobEnd reads it", () => {
  const ends = (text: string, code: number) => {
    const end = new JobEnd();
    const filter = new BoilerplateFilter("slurm", end);
    const added = [
      "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
      "slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
      "slurmstepd-n1: error:  mpi/pmix_v4: _errhandler: n1 [0]: pmixp_client_v2.c:211: Error handler invoked",
      "srun: Job step aborted:",
      "srun: forcing job termination",
      "srun: cluster configuration lacks support for cpu binding",
    ];
    assertEquals([...text.split("\n"), "mine", ...added].flatMap((line) => filter.push(line)), ["mine"]);
    return end.describe(code);
  };
  assertEquals(ends("srun: error: n1: task 3: Exited with exit code 5", 5), "rank 3 ended the job with exit code 5");
  const killed = "rank 1 was ended by signal 9 (Killed), and the job with exit code 137";
  assertEquals(ends("srun: error: n1: task 1: Killed", 137), killed);
  const crashed = "rank 0 was ended by signal 11 (Segmentation fault), and the job with exit code 139";
  assertEquals(ends("srun: error: n1: tasks 0-1: Segmentation fault (core dumped)", 139), crashed);
  // It ends the others before it tells of the first.
  const words = 'distmath-end: {"rank":3,"code":1,"how":"an uncaught error"}';
  const error = "rank 3 ended the job with exit code 1: an uncaught error";
  assertEquals(
    ends(`${words}\nsrun: error: n2: task 2: Killed\nsrun: error: n2: task 3: Exited with exit code 1`, 14),
    error,
  );
  assertEquals(ends(`${words}\nsrun: error: n1: tasks 0-1: Exited with exit code 14`, 14), error);
});

Deno.test("JobEnd tells of a lost host, also where the launcher takes it for a success", () => {
  const describe = (kind: LauncherKind, lines: string[], code: number) => {
    const end = new JobEnd();
    const filter = new BoilerplateFilter(kind, end);
    assertEquals([...lines.flatMap((line) => filter.push(line)), ...filter.end()], []);
    return [end.code(code), end.describe(code)];
  };
  const lost = [
    dashes,
    "PRTE has lost communication with a remote daemon.",
    "",
    "  HNP daemon   : [prterun-host1-21617@0,0] on node host1",
    "  Remote daemon: [prterun-host1-21617@0,1] on node host2",
    dashes,
  ];
  assertEquals(describe("open_mpi", lost, 0), [
    1,
    "the connection to host2 was lost, and the job ended with exit code 1",
  ]);
  const unreachable = "another host cannot be reached, and the job ended with exit code";
  const unstarted = [dashes, "ORTE was unable to reliably start one or more daemons.", dashes];
  assertEquals(describe("open_mpi", unstarted, 9), [9, `${unreachable} 9`]);
  const short = "-".repeat(60);
  const silent = [short, "A daemon failed to report back after being spawned.", "  Remote host:   host2", short];
  assertEquals(describe("open_mpi", silent, 0), [1, "host2 cannot be reached, and the job ended with exit code 1"]);
  const hydra = ["[mpiexec@host1] control_cb (pm/pmiserv/pmiserv_cb.c:208): assert (!closed) failed"];
  assertEquals(describe("mpich", hydra, 255), [255, `${unreachable} 255`]);
});

Deno.test("BoilerplateFilter shows an error that all ranks raise once", () => {
  for (const kind of ["open_mpi", "mpich"] as const) {
    assertEquals(filtered(kind, [...error, ...error, "tail", ...error]).shown, [...error, "tail"]);
  }
  const other = ["error: Uncaught (in promise) Error: another", "    at file:///job.ts:9:1"];
  assertEquals(filtered("mpich", [...error, ...other, ...error, ...other]).shown, [...error, ...other]);
  // As Deno writes it to a terminal.
  const coloured = error.map((line) =>
    line.replace(/^error/, "\x1b[0m\x1b[1m\x1b[31merror\x1b[0m").replace(/ at (.*)/, " at \x1b[36m$1\x1b[0m")
  );
  assertEquals(filtered("mpich", [...coloured, ...coloured, "tail"]).shown, [...coloured, "tail"]);
});

Deno.test("BoilerplateFilter takes for a copy what a stack ends, and shows what follows a repeated line otherwise", () => {
  const [line] = error;
  const others = Array.from({ length: 40 }, (_, index) => `line ${index}`);
  assertEquals(filtered("mpich", [line, line, ...others]).shown, [line, ...others]);
  assertEquals(filtered("mpich", [line, line, "few"]).shown, [line, "few"]);
  assertEquals(filtered("mpich", [line, line, "few", line, ...error, "tail"]).shown, [line, "few", "tail"]);
  assertEquals(filtered("mpich", [...error, ...error], 1).shown, [...error, ...error]);
});

Deno.test("BoilerplateFilter keeps blocks that it does not know, and one that does not end", () => {
  const table = [dashes, "a   b", dashes, "1   2"];
  assertEquals(filtered("open_mpi", table).shown, table);
  const open = [dashes, ...Array.from({ length: 40 }, (_, index) => `line ${index}`)];
  assertEquals(filtered("open_mpi", open).shown, open);
  assertEquals(filtered("open_mpi", [dashes, "the end"]).shown, [dashes, "the end"]);
});

Deno.test("JobEnd takes no code of which the system keeps nothing for that of a job that went well", () => {
  for (const [abort, expected] of [[13, 13], [256, 1], [-512, 1], [0, 1]]) {
    const end = new JobEnd();
    end.note(`MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode ${abort}.`);
    assertEquals(end.code(1), expected);
  }
});

Deno.test("JobEnd takes a rank's words for its own only if they are", () => {
  for (
    const line of ["distmath-end: hello", 'distmath-end: {"rank":1,"code":', "distmath-end: 1", "distmath-end: null"]
  ) {
    assertEquals(filtered("open_mpi", [line]).shown, [line]);
  }
  assertEquals(filtered("open_mpi", ['distmath-end: {"rank":1,"code":3}']).shown, []);
  // Beside a part of another rank's line.
  assertEquals(filtered("open_mpi", ['rank 0 distmath-end: {"rank":1,"code":3}is here']).shown, ["rank 0 is here"]);
});

Deno.test("JobEnd takes for words of its own job those that come with what its ranks alone know", () => {
  const end = new JobEnd("a");
  for (const line of ['distmath-end: {"rank":1,"code":3}', 'distmath-end: {"rank":1,"code":3,"job":"b"}']) {
    assertEquals([end.take(line), end.isTold], [line, false]);
  }
  assertEquals([end.take('distmath-end: {"rank":0,"code":4,"job":"a"}'), end.isTold], [null, true]);
  assertEquals(end.describe(1), "rank 0 ended the job with exit code 4");
});

Deno.test("What was taken for a launcher's is given back once, and no longer counts", () => {
  const block = [
    dashes,
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
    "with errorcode 13.",
    dashes,
  ];
  const line = "mpirun: Forwarding signal 18 to job";
  const end = new JobEnd();
  const filter = new BoilerplateFilter("open_mpi", end);
  assertEquals([...block, "between", line].flatMap((line) => filter.push(line)), ["between"]);
  assertEquals([end.isSaid, end.isTold, end.code(1)], [true, false, 13]);
  assertEquals([filter.takeBack(), filter.takeBack()], [[...block, line], []]);
  end.forget();
  assertEquals([end.isSaid, end.code(1)], [false, 1]);
});

Deno.test("JobEnd takes from the memory of the ranks what their launcher has lost, and nothing else", () => {
  const told = { rank: 1, code: 3, how: "an uncaught error" };
  const silent = new JobEnd();
  silent.lose(null);
  silent.add(told);
  assertEquals([silent.code(143), silent.describe(143)], [
    3,
    "rank 1 ended the job with exit code 3: an uncaught error",
  ]);
  const heard = new JobEnd();
  assertEquals(heard.take('distmath-end: {"rank":0,"code":7}'), null);
  heard.add(told);
  assertEquals(heard.code(1), 7);
  const lost = new JobEnd();
  lost.lose(1);
  const words = "rank 1 is no more, of which the launcher took no notice, and the job ended with exit code 143";
  assertEquals([lost.code(143), lost.describe(143)], [143, words]);
});
