/**
 * What the benchmarks run on.
 *
 * @module
 */
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import type { Libraries } from "./libraries.ts";
import { versionOf } from "./programs.ts";
import type { RunRecord } from "./record.ts";

/** The machine: processor, cores, memory, kernel. */
export function describeMachine(): RunRecord["machine"] {
  const processor = /^model name\s*: (.*)$/m.exec(Deno.readTextFileSync("/proc/cpuinfo"))?.[1] ?? Deno.build.arch;
  const hugePages = Deno.readTextFileSync("/sys/kernel/mm/transparent_hugepage/enabled");
  return {
    processor,
    cores: navigator.hardwareConcurrency,
    memoryGiB: Math.round(Deno.systemMemoryInfo().total / 2 ** 30),
    kernel: Deno.osRelease(),
    hugePages: /\[(\w+)\]/.exec(hugePages)?.[1] ?? "unknown",
  };
}

/** A machine's kind as part of a file name, such as `amd-epyc-2-cores`. */
export function machineKind({ processor, cores }: RunRecord["machine"]): string {
  const words = processor.toLowerCase().replaceAll(/\(.*?\)/g, " ").match(/[a-z0-9]+/g) ?? [];
  return [...words, cores, "cores"].join("-");
}

/** Versions of all that takes part. */
export async function describeVersions(
  { versions, scalapack, threadedBlas }: Libraries,
): Promise<RunRecord["versions"]> {
  const requirements = await Deno.readTextFile(new URL("../requirements.txt", import.meta.url));
  const pinned = requirements.trim().split("\n").map((line) => line.split("=="));
  const files = [...scalapack, ...threadedBlas instanceof Error ? [] : threadedBlas].map((file) => basename(file));
  return {
    ...Object.fromEntries(versions.map(({ name, version }) => [name, version])),
    "library files": [...new Set(files)].join(" "),
    ...Object.fromEntries(pinned),
    Deno: Deno.version.deno,
    V8: Deno.version.v8,
    Python: await versionOf("python3"),
    gcc: await versionOf("gcc"),
  };
}

/** The commit that is checked out, with `-dirty` if files differ from it. */
export async function describeCommit(): Promise<string> {
  const { code, stdout } = await new Deno.Command("git", {
    args: ["-C", fileURLToPath(new URL("../..", import.meta.url)), "describe", "--always", "--dirty", "--abbrev=12"],
    stderr: "null",
  }).output().catch(() => ({ code: 1, stdout: new Uint8Array() }));
  return code === 0 ? new TextDecoder().decode(stdout).trim() : "unknown";
}

/**
 * Environment variables for all programs, as `deno task run` sets them: the fast transports of one host (Open MPI names
 * its shared memory transport `sm` since 5.0, `vader` before), no binding to cores, no shared memory at addresses that
 * the server picks (Open MPI 5; V8 may have reserved them, and MPI_Init then fails now and then), ranks that spin while
 * they wait if each has a core, whatever the caller's environment says, and what Open MPI wants to hear when root starts
 * it, or more ranks than cores.
 */
export function launcherSettings({ versions }: Libraries, ranks: number): Record<string, string> {
  const mpi = versions.find(({ version }) => version.startsWith("Open MPI"));
  if (mpi === undefined) return {};
  const modern = !/v4\./.test(mpi.version);
  const isCrowded = ranks > navigator.hardwareConcurrency;
  return {
    OMPI_MCA_pml: "ob1",
    OMPI_MCA_btl: modern ? "self,sm" : "self,vader",
    OMPI_MCA_mpi_yield_when_idle: isCrowded ? "1" : "0",
    ...modern
      ? { PRTE_MCA_hwloc_default_binding_policy: "none", PMIX_MCA_gds: "hash" }
      : { OMPI_MCA_hwloc_base_binding_policy: "none" },
    ...Deno.uid() === 0 ? { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" } : {},
    ...!isCrowded
      ? {}
      : modern
      ? { PRTE_MCA_rmaps_default_mapping_policy: ":oversubscribe" }
      : { OMPI_MCA_rmaps_base_oversubscribe: "1" },
  };
}
