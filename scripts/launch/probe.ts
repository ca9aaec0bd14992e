/**
 * Trying out, in processes of their own, what a launcher's MPI can do, and what there is of GPUs.
 *
 * @module
 */
import type { GpuReport } from "../../internals.ts";
import { denoRun, runJob } from "./job.ts";
import type { Launcher } from "./launcher.ts";
import { gpuMarker } from "./probe_gpu.ts";
import { marker, type Probe } from "./probe_rank.ts";
import { CommandError, scriptAddress, withoutColors } from "../terminal.ts";

/** NVIDIA's libraries are large: reading them from a cold disk takes long. */
const probeSeconds = { cpu: 30, gpu: 120 };

/** Start one rank under a launcher, on the CPU or on GPU 0, and see what it can do. */
export async function probeLauncher(
  launcher: Launcher,
  env: Record<string, string> = {},
  device: "cpu" | "gpu" = "cpu",
): Promise<Probe> {
  const timeoutSeconds = probeSeconds[device];
  const lines: string[] = [];
  const { code, isTimedOut, isInterrupted } = await runJob(launcher, {
    ranks: 1,
    program: denoRun(scriptAddress("launch/probe_rank.ts"), device === "gpu" ? ["0"] : []),
    env: { ...withoutColors, ...env },
    timeoutSeconds,
    onLine: (_, line) => lines.push(line),
  });
  if (isInterrupted) throw new CommandError("interrupted", code);
  const result = lines.find((line) => line.startsWith(marker));
  if (result) return JSON.parse(result.slice(marker.length));
  const error = isTimedOut
    ? `it did not answer within ${timeoutSeconds} s`
    : `it ended with exit code ${code}: ${lines.find((line) => /error/i.test(line)) ?? lines[0] ?? "no output"}`;
  return { libraries: [], threads: null, canMultiply: false, error, transformError: error };
}

/** What a process of its own sees of GPUs; one that does not come to its end is a fault. */
export async function probeGpus(): Promise<GpuReport> {
  const [program, ...args] = denoRun(scriptAddress("launch/probe_gpu.ts"));
  const signal = AbortSignal.timeout(probeSeconds.gpu * 1000);
  const output = await new Deno.Command(program, { args, env: withoutColors, stdin: "null", signal }).output();
  const [lines, errors] = [output.stdout, output.stderr].map((bytes) => new TextDecoder().decode(bytes).split("\n"));
  const result = lines.find((line) => line.startsWith(gpuMarker));
  if (result) return JSON.parse(result.slice(gpuMarker.length));
  const reason = signal.aborted
    ? `looking at GPUs took more than ${probeSeconds.gpu} s`
    : `looking at GPUs ended with exit code ${output.code}: ${errors.find((line) => line !== "") ?? "no output"}`;
  const multicast = { NCCL_NVLS_ENABLE: null, NVSHMEM_DISABLE_NVLS: null };
  return {
    driver: null,
    absence: { reason, isFault: true },
    devices: [],
    links: [],
    libraries: [],
    missing: [],
    multicast,
  };
}
