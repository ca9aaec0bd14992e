/**
 * Group `fft`: `FFT.execute` against FFTW-MPI with measured plans and MKL's cluster FFT, both called from C, and against
 * mpi4py-fft, which measures too.
 *
 * Started as a program it is our side of the comparison, on each rank.
 *
 * @module
 */
import { DistributedArray, type DType, FFT, type FFTOptions, type FFTType, initialize, Slab } from "../mod.ts";
import { type Group, type Measurement, ours, turn } from "./harness/bench.ts";
import type { Job } from "./harness/job.ts";
import { c, deno, python } from "./harness/programs.ts";
import { serve, timeChunks, timeEach } from "./harness/worker.ts";

/** What is transformed: extents, calls a round, and rounds. */
const sizes: [extents: readonly number[], repeats: number, rounds: number][] = [
  [[256, 256, 256], 1, 9],
  [[4096, 4096], 1, 9],
  [[128, 128, 128], 4, 11],
];

/** Batches: as many transforms as the first extent, of the second. */
const batches = [[4096, 4096], [16384, 1024]];

/**
 * A transform that is nearly all overhead: its extents, chunks a round and calls a chunk, of which the times are averages, and
 * how much longer it may take than FFTW-MPI's, which ranks exchange too.
 */
const small = { extents: [16, 16], chunks: 9, calls: 1000, overhead: 20e-6 };

/** A row of the small transform; with collective checks ranks agree before each execution. */
function smallRow(
  job: Job | Error,
  peers: Readonly<Record<string, Job | Error>>,
  inplace: boolean,
  checks: "local" | "collective",
): Measurement {
  const { extents, chunks, calls, overhead } = small;
  const order = `${chunks} ${calls} ${extents.join(" ")}`;
  const turns = Object.entries(peers).map(([name, peer]) => [name, turn(peer, `small ${order}`)]);
  return {
    title: `${extents.join(" x ")}, Slab.X -> Slab.Y, ${
      inplace ? "in place" : "a new array each time"
    }, ${checks} checks`,
    rounds: 15,
    turns: { [ours]: turn(job, `small ${inplace} ${order}`), ...Object.fromEntries(turns) },
    comparisons: [
      { quantity: "overhead", against: "FFTW-MPI", bound: overhead },
      { quantity: "speed", against: "mpi4py-fft" },
      { quantity: "speed", against: "MKL cluster FFT" },
    ],
  };
}

/** The group. */
export const fft: Group = {
  name: "fft",
  description: "FFT.execute, complex128, on slabs, against FFTW-MPI (measured plans), MKL's cluster FFT, mpi4py-fft",
  async run(bench) {
    const { libraries } = bench;
    await using jobs = await bench.start({
      [ours]: deno("fft.ts"),
      "FFTW-MPI": c("fft", libraries, { files: ["fftw"] }),
      "MKL cluster FFT": c("fft", libraries, { files: ["cluster", ...libraries.scalapack] }),
      "mpi4py-fft": python("fft", libraries, { isBuilt: true }),
    });
    for (const [extents, repeats, rounds] of sizes) {
      for (const isNatural of [true, false]) {
        const order = `transform ${isNatural} ${repeats} ${extents.join(" ")}`;
        await bench.row({
          title: `${extents.join(" x ")}, ${isNatural ? "Slab.X -> Slab.Y" : "Slab.X -> Slab.X"}`,
          // As everybody counts them for Fourier transforms.
          operations: 5 * extents.reduce((n, extent) => n * extent, 1) *
            Math.log2(extents.reduce((n, extent) => n * extent, 1)),
          rounds,
          turns: {
            [ours]: turn(jobs[ours], order),
            "FFTW-MPI": turn(jobs["FFTW-MPI"], order),
            "MKL cluster FFT": turn(jobs["MKL cluster FFT"], order),
            "mpi4py-fft": turn(jobs["mpi4py-fft"], order),
          },
          comparisons: [
            { quantity: "speed", against: "FFTW-MPI", bound: 1 },
            { quantity: "speed", against: "mpi4py-fft", bound: 1 },
            { quantity: "speed", against: "MKL cluster FFT", bound: 1 },
          ],
        });
      }
    }
    for (const [count, length] of batches) {
      const order = `batch 1 ${count} ${length}`;
      await bench.row({
        title: `${count} transforms of ${length}, Slab.X, in place`,
        operations: 5 * count * length * Math.log2(length),
        rounds: 9,
        turns: {
          [ours]: turn(jobs[ours], order),
          "FFTW-MPI": turn(jobs["FFTW-MPI"], order),
          "MKL cluster FFT": new Error("It transforms one array of all ranks, no batches."),
          "mpi4py-fft": turn(jobs["mpi4py-fft"], order),
        },
        comparisons: [
          { quantity: "speed", against: "FFTW-MPI", bound: 1 },
          { quantity: "speed", against: "mpi4py-fft", bound: 1 },
        ],
      });
    }
    const { command } = deno("fft.ts");
    await using checked = await bench.start({ [ours]: { command: [...command, "collective"] } });
    const { [ours]: unchecked, ...peers } = jobs;
    for (const [job, checks] of [[unchecked, "local"], [checked[ours], "collective"]] as const) {
      for (const inplace of [true, false]) await bench.row(smallRow(job, peers, inplace, checks));
    }
  },
};

if (import.meta.main) {
  using runtime = initialize({ device: "cpu", checks: Deno.args[0] === "collective" ? "collective" : "local" });

  /** The transform of the last order; it serves all rounds, as in a program that transforms again and again. */
  let last: { key: string; field: DistributedArray; transform: FFT<DType, FFTType | undefined> } | null = null;

  const prepare = (key: string, shape: readonly number[], options: FFTOptions): () => void => {
    if (last?.key !== key) {
      last?.transform.free();
      last?.field.free();
      const field = DistributedArray.random(runtime, shape, Slab.X, { dtype: "complex128", seed: 1 });
      const transform = new FFT(field, options);
      transform.plan();
      last = { key, field, transform };
    }
    const { transform } = last;
    const run = options.inplace ? () => void transform.execute() : () => transform.execute()[Symbol.dispose]();
    run();
    return run;
  };

  const barrier = () => runtime.communicator.barrier();

  await serve(runtime.rank, {
    transform(isNatural, repeats, ...extents) {
      const options = isNatural === "true" ? {} : { redistribute: true };
      const run = prepare([isNatural, ...extents].join(), extents.map(Number), options);
      return timeEach(Number(repeats), run, barrier);
    },
    batch(repeats, ...extents) {
      const run = prepare(["batch", ...extents].join(), extents.map(Number), { axes: [1], inplace: true });
      return timeEach(Number(repeats), run, barrier);
    },
    small(inplace, chunks, calls, ...extents) {
      const run = prepare(["small", inplace, ...extents].join(), extents.map(Number), { inplace: inplace === "true" });
      return timeChunks(Number(chunks), Number(calls), run, barrier);
    },
  });
}
