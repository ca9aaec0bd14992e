/**
 * `deno task bench overlap`: bench/overlap.ts on all GPUs of this machine, and PyTorch's side after it where it is
 * installed; what is not is named as missing.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { readyLauncher } from "../../scripts/launch/ready_launcher.ts";
import { denoRun, runJob } from "../../scripts/launch/job.ts";
import { CommandError } from "../../scripts/terminal.ts";
import { type GpuFacts, inspectGpus } from "../../src/gpu/report.ts";
import { type OverlapArguments, parseOverlapArguments } from "./arguments.ts";

/** How many ranks the GPUs allow, or why they allow none. */
export function ranksOn(
  devices: readonly Pick<GpuFacts, "name" | "computeCapability">[],
  absence: string | null,
): number {
  const instead = "Products on CPUs: deno task bench shared.";
  if (devices.length === 0) {
    throw new CommandError(`bench overlap needs two GPUs: ${absence ?? "none is here"}. ${instead}`, 2);
  }
  const other = devices.find(({ computeCapability: [major, minor] }) => major !== 9 || minor !== 0);
  if (other) {
    const capability = other.computeCapability.join(".");
    throw new CommandError(
      `bench overlap needs GPUs of compute capability 9.0, and ${other.name} has ${capability}. ${instead}`,
      2,
    );
  }
  if (devices.length < 2) throw new CommandError(`bench overlap needs two GPUs, and there is one. ${instead}`, 2);
  return devices.length;
}

/** The arguments of PyTorch's side, which has no emulated geometry. */
export function torchArguments({ kinds, shapes, rounds, steady }: OverlapArguments): string[] {
  const state = steady ? ["steady"] : [];
  return [kinds.join(), (shapes ?? []).map((shape) => shape.join()).join(";"), String(rounds), ...state];
}

async function hasTorch(): Promise<boolean> {
  try {
    const { success } = await new Deno.Command("python3", { args: ["-c", "import torch"], stderr: "null" }).output();
    return success;
  } catch {
    return false;
  }
}

/** Run it; `args` are those after the group's name, with paths that the programs can use. */
export async function benchOverlap(args: readonly string[]): Promise<void> {
  const asked = parseOverlapArguments(args);
  const { devices, absence } = inspectGpus();
  const ranks = ranksOn(devices, absence?.reason ?? null);
  const launcher = await readyLauncher();
  const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const start = async (program: readonly string[], name: string) => {
    const lines: string[] = [];
    const { code } = await runJob(launcher, {
      ranks,
      program,
      onLine(stream, line) {
        if (stream === "stdout") lines.push(line);
        console.log(line);
      },
    });
    if (code !== 0) throw new CommandError(`${name} ended with exit code ${code}`, 1);
    return lines;
  };
  await start(denoRun(here("../overlap.ts"), args), "bench/overlap.ts");
  const reason = asked.without.includes("torch")
    ? "left out by --without"
    : asked.dtype !== "bfloat16"
    ? `multiplies bfloat16 here, not ${asked.dtype}`
    : asked.geometry !== null
    ? "has no emulated geometry"
    : await hasTorch()
    ? null
    : "python3 has no torch";
  if (reason !== null) return console.log(`torch missing: ${reason}`);
  const lines = await start(
    ["python3", here("../peers/overlap.py"), ...torchArguments(asked)],
    "bench/peers/overlap.py",
  );
  if (asked.json !== null) {
    await Deno.writeTextFile(asked.json.replace(/(\.json)?$/, ".torch.json"), `${lines.at(-1)}\n`);
  }
}
