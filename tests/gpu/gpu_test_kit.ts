/** Tests that need a GPU, or a CPU: skipped, with the reason, on machines without one, or with one. */
import { launcher } from "../../ffi/mpi/mod.ts";
import { Device, type Runtime, type Stream } from "../../mod.ts";
import { clusterTest, type ClusterTestOptions } from "../../src/testing/mod.ts";

/** Whether this process computes on a GPU when nothing else is said. */
export const hasGpu: boolean = Device.count() > 0 && Deno.env.get("DISTMATH_DEVICE") !== "cpu";

/** Whether this job's ranks share GPUs. */
export const areGpusShared: boolean = hasGpu && Device.count() < (launcher()?.size ?? 1);

/** Register a test that every rank runs on its GPU. */
export function gpuTest(
  name: string,
  body: (runtime: Runtime, stream: Stream) => void | Promise<void>,
  options: ClusterTestOptions = {},
): void {
  const ignore = hasGpu ? options.ignore ?? false : "no GPU";
  clusterTest(name, { ...options, ignore }, (runtime) => body(runtime, runtime.stream!));
}

/** Register a test of what only CPUs do. */
export function hostTest(
  name: string,
  options: ClusterTestOptions | ((runtime: Runtime) => void),
  body: ((runtime: Runtime) => void) | null = null,
): void {
  const [given, run] = typeof options === "function" ? [{}, options] : [options, body!];
  clusterTest(name, { ...given, ignore: hasGpu ? "it is of CPUs" : given.ignore ?? false }, run);
}

/** Whether the GPU is the mock, which is slow and runs nothing at the same time. */
export function isMock({ device }: Runtime): boolean {
  return device.name === "Mock GPU";
}
