/**
 * Results of tests as other programs read them: JUnit XML, JSON, TAP. Every test is in each of them, whatever became of it.
 *
 * @module
 */
import { count, type FileResult, listRanks, type MergedTest } from "./merge.ts";

/** A file and a number of ranks: `a_test.ts on 2 ranks`. */
export function jobName({ file, ranks }: Pick<FileResult, "file" | "ranks">): string {
  return `${file} on ${ranks} ${ranks === 1 ? "rank" : "ranks"}`;
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Text without the control characters that XML 1.0 or YAML 1.2 does not permit. */
function printable(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]/g, "");
}

/** What ends a line in YAML, and for who reads TAP in text mode. */
const LINE_BREAK = /\r\n?|\n/g;

/** Text for XML. */
export function xml(text: string): string {
  return printable(text).replace(/[&<>"]/g, (sign) => escapes[sign]);
}

/** Why a test has neither passed nor failed. */
function reasonOf({ outcome, details }: MergedTest): string {
  return outcome === "skipped" ? details : `${outcome}: ${details}`;
}

/** How many tests there are, as attributes: what was not run is no failure of its own, and no success. */
function counted(tests: FileResult["tests"]): string {
  const { passed, failed, "not run": unrun } = count(tests);
  const skipped = tests.length - passed - failed - unrun;
  return `tests="${tests.length}" failures="${failed}" errors="${unrun}" skipped="${skipped}"`;
}

/**
 * Results as JUnit XML: a suite for each file and number of ranks; tests that were not run are errors.
 */
export function junit(files: readonly FileResult[]): string {
  const suites = files.map(({ file, ranks, tests, seconds, attempts = 1 }) => {
    const name = jobName({ file, ranks });
    const cases = tests.map((test) => {
      const time = test.seconds === undefined ? "" : ` time="${test.seconds.toFixed(3)}"`;
      const open = `    <testcase name="${xml(test.name)}" classname="${xml(name)}"${time}`;
      if (test.outcome === "passed") {
        const { failedBefore } = test;
        if (failedBefore === undefined) return `${open}/>`;
        return `${open}><flakyFailure message="failed before it passed">${xml(failedBefore)}</flakyFailure></testcase>`;
      }
      if (test.outcome !== "failed") {
        const element = test.outcome === "not run" ? "error" : "skipped";
        return `${open}><${element} message="${xml(reasonOf(test))}"/></testcase>`;
      }
      const message = test.failedRanks.length > 0 ? `failed on ${listRanks(test.failedRanks)}` : "failed";
      return `${open}><failure message="${xml(message)}">${xml(test.details)}</failure></testcase>`;
    });
    const attributes = `${counted(tests)} time="${seconds.toFixed(3)}"`;
    const properties = `    <properties><property name="attempts" value="${attempts}"/></properties>`;
    return [
      `  <testsuite name="${xml(name)}" ${attributes}>`,
      ...attempts > 1 ? [properties] : [],
      ...cases,
      "  </testsuite>",
    ].join("\n");
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counted(files.flatMap(({ tests }) => tests))}>`,
    ...suites,
    "</testsuites>",
    "",
  ].join("\n");
}

/** Results as JSON: a list of jobs with their tests, and how many tests had each outcome. */
export function json(files: readonly FileResult[]): string {
  const jobs = files.map(({ file, ranks, seconds, tests, attempts = 1 }) => ({
    file,
    ranks,
    seconds,
    attempts,
    tests,
  }));
  return `${JSON.stringify({ counts: count(files.flatMap(({ tests }) => tests)), jobs }, null, 2)}\n`;
}

/** Results as TAP, version 14: a test point for each test and number of ranks. */
export function tap(files: readonly FileResult[]): string {
  const points = files.flatMap((file) =>
    file.tests.map((test) => ({ ...test, name: `${jobName(file)}: ${test.name}` }))
  );
  const lines = points.flatMap((test, i) => {
    const { name, outcome, failedRanks, details, failedBefore } = test;
    const text = printable(name).replaceAll(/[\\#]/g, "\\$&").replaceAll(LINE_BREAK, " ");
    const isBad = outcome === "failed" || outcome === "not run";
    const point = `${isBad ? "not ok" : "ok"} ${i + 1} - ${text}`;
    // The indentation is told: the first line may begin with spaces.
    const block = (key: string, text: string) => [
      `  ${key}: |2`,
      ...printable(text).split(LINE_BREAK).map((line) => `    ${line}`),
    ];
    if (outcome === "passed") {
      return failedBefore === undefined ? [point] : [point, "  ---", ...block("failedBefore", failedBefore), "  ..."];
    }
    if (!isBad) return [`${point} # SKIP ${printable(reasonOf(test)).replaceAll(LINE_BREAK, " ")}`];
    const message = outcome === "failed" ? details : reasonOf(test);
    return [
      point,
      "  ---",
      ...failedRanks.length > 0 ? [`  ranks: [${failedRanks.join(", ")}]`] : [],
      ...block("message", message),
      "  ...",
    ];
  });
  return ["TAP version 14", `1..${points.length}`, ...lines, ""].join("\n");
}
