/**
 * The benchmarks: `deno task bench [group …] [--ranks N] [--rounds N] [--filter TEXT] [--json FILE]`.
 *
 * Results are printed, and recorded as JSON and as a chart under bench/results/, or where `--json` says.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { readyLauncher } from "../scripts/launch/ready_launcher.ts";
import { matches } from "../scripts/results/merge.ts";
import {
  checkWritable,
  CommandError,
  Help,
  jobProgress,
  oneLine,
  parseCommand,
  parseCount,
  userPath,
} from "../scripts/terminal.ts";
import { arrays } from "./arrays.ts";
import { communicator } from "./communicator.ts";
import { elementwise } from "./elementwise.ts";
import { fft } from "./fft.ts";
import { Bench, type BenchOptions, type Group, threadsPerRank } from "./harness/bench.ts";
import { chart } from "./harness/chart.ts";
import { findLibraries, type Libraries } from "./harness/libraries.ts";
import { describeCommit, describeMachine, describeVersions, launcherSettings, machineKind } from "./harness/machine.ts";
import { cleanUp } from "./harness/programs.ts";
import { type GroupRecord, merged, type RunRecord } from "./harness/record.ts";
import { formatRow } from "./harness/table.ts";
import { overhead } from "./overhead.ts";
import { benchOverlap } from "./overlap/command.ts";
import { pgemm } from "./pgemm.ts";
import { scaling } from "./scaling.ts";
import { redistribution } from "./redistribution.ts";
import { shared } from "./shared.ts";
import { startup } from "./startup.ts";

const groups: readonly Group[] = [
  pgemm,
  scaling,
  overhead,
  communicator,
  startup,
  arrays,
  elementwise,
  redistribution,
  fft,
  shared,
];

const usage = `Usage: deno task bench [group …] [--ranks N] [--rounds N] [--filter TEXT] [--json FILE] [--pause MS]

--rounds repeats everything so often, such as once to see that it works, and --filter measures only rows whose titles
contain it, or match it as /TEXT/: both are recorded where --json says, if it does. --pause waits before each turn, on a
machine that is shared with others.

Groups (all, if none is named):
${groups.map(({ name, description }) => `  ${name.padEnd(16)}${description}`).join("\n")}

On GPUs, with options of its own: deno task bench overlap [--kinds ag,rs,ar] [--shapes M,N,K;…] …`;

/** What the command line asks for. */
export interface Arguments extends BenchOptions {
  /** The groups to run. */
  groups: readonly Group[];
  /** Ranks for the groups that do not fix them. */
  ranks: number;
  /** Where the JSON goes; null for the usual place. */
  json: string | null;
}

/** Read the command line; throws an Error with the usage if it is wrong. */
export function parseArguments(args: string[]): Arguments {
  const { values, positionals } = parseCommand(args, {
    ranks: { type: "string", default: "2" },
    json: { type: "string" },
    pause: { type: "string", default: "0" },
    rounds: { type: "string" },
    filter: { type: "string" },
  }, usage);
  const unknown = positionals.filter((name) => !groups.some((group) => group.name === name));
  if (unknown.length > 0) throw new Error(`There is no group ${unknown.join(", ")}.\n\n${usage}`);
  const ranks = Number(values.ranks);
  if (!Number.isInteger(ranks) || ranks < 2) {
    throw new Error(`--ranks takes a number of at least 2, not ${values.ranks}.\n\n${usage}`);
  }
  if (values.filter !== undefined) checkFilter(values.filter);
  const pause = Number(values.pause);
  if (!(pause >= 0)) throw new Error(`--pause takes milliseconds, not ${values.pause}.\n\n${usage}`);
  return {
    pause,
    groups: positionals.length === 0 ? groups : groups.filter(({ name }) => positionals.includes(name)),
    ranks,
    json: values.json ?? null,
    rounds: values.rounds === undefined ? null : parseCount(values.rounds, "--rounds"),
    filter: values.filter,
  };
}

function checkFilter(filter: string): void {
  try {
    matches("", filter);
  } catch (error) {
    throw new CommandError(`--filter: ${oneLine(error)}`);
  }
}

async function runGroup(
  group: Group,
  wanted: number,
  libraries: Libraries,
  options: BenchOptions,
  progress: { readonly show: (rows: number) => void; readonly hide: () => void },
): Promise<GroupRecord> {
  const { name, description, ranks = wanted } = group;
  console.log(`\n${name}: ${description}`);
  let rows = 0;
  progress.show(rows);
  const bench = new Bench(ranks, libraries, options, (row) => {
    progress.hide();
    console.log(formatRow(row));
    progress.show(++rows);
  });
  await group.run(bench);
  progress.hide();
  const [time, commit] = [new Date().toISOString(), await describeCommit()];
  return { name, description, time, commit, ranks, rows: [...bench.rows] };
}

/** The result file of an earlier run, if there is one. */
async function readRecord(path: string): Promise<RunRecord | null> {
  const text = await Deno.readTextFile(path).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  });
  return text === null ? null : JSON.parse(text);
}

/** The arguments with the file of `--json` as the user means it. */
export function withUserPath(args: readonly string[]): string[] {
  return args.map((arg, i) =>
    args[i - 1] === "--json" ? userPath(arg) : arg.replace(/^--json=(.+)/, (_, path) => `--json=${userPath(path)}`)
  );
}

/** Where results are recorded: those of a part take no other's place, and go nowhere by themselves. */
function recordPath(
  json: string | null,
  machine: RunRecord["machine"],
  { rounds, filter }: BenchOptions,
): string | null {
  if (json !== null) return userPath(json);
  if (rounds !== null || filter !== undefined) return null;
  const day = new Date().toISOString().slice(0, 10);
  return fileURLToPath(new URL(`results/${day}-${machineKind(machine)}.json`, import.meta.url));
}

async function main(args: string[]): Promise<void> {
  // It has options and a record of its own, and runs on GPUs.
  if (args[0] === "overlap") return await benchOverlap(withUserPath(args.slice(1)));
  const { groups, ranks, json, ...options } = parseArguments(args);
  const machine = describeMachine();
  const file = recordPath(json, machine, options);
  if (file !== null) checkWritable(file, "--json");
  await readyLauncher();
  const libraries = await findLibraries(threadsPerRank(ranks));
  const [versions, settings] = [await describeVersions(libraries), launcherSettings(libraries, ranks)];
  console.log(`${machine.processor}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}`);
  for (const [name, version] of Object.entries(versions)) console.log(`  ${name}: ${version}`);

  let record = file === null ? null : await readRecord(file);
  const progress = jobProgress(groups.length);
  for (const [i, group] of groups.entries()) {
    const show = (rows: number) => progress.update(`${group.name}, ${rows} ${rows === 1 ? "row" : "rows"} so far`, i);
    const measured = await runGroup(group, ranks, libraries, options, { show, hide: () => progress.end() });
    record = merged(record, { machine, versions, settings, groups: [measured] });
    if (file !== null) await Deno.writeTextFile(file, `${JSON.stringify(record, null, 2)}\n`);
  }
  if (record?.groups.every(({ rows }) => rows.length === 0)) {
    throw new CommandError(`--filter "${options.filter}" matches the title of no row`);
  }
  if (record === null || file === null) return;
  const picture = file.replace(/(\.json)?$/, ".svg");
  await Deno.writeTextFile(picture, chart(record));
  console.log(`\nRecorded in ${file} and ${picture}`);
}

if (import.meta.main) {
  try {
    await main(Deno.args);
  } catch (error) {
    if (error instanceof Help) console.log(error.message);
    else {
      console.error(error instanceof Error ? error.message : String(error));
      Deno.exitCode = error instanceof CommandError ? error.code : 2;
    }
  } finally {
    cleanUp();
  }
}
