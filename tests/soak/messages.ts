/** The soak's messages and collective calls, on communicators, types and operators that are made for them and freed. */
import { type Communicator, LocalArray, ReductionOperator, startAll, waitAll } from "../../mod.ts";
import type { Context } from "./given.ts";
import { partOf, tabulate, wrongNumbers } from "./model.ts";

/** One of the kinds of communicators, of all ranks or of some of them. */
function made({ runtime: { communicator }, draw }: Context): Communicator {
  switch (draw.below(4)) {
    case 0:
      return communicator.duplicate();
    case 1:
      return communicator.splitShared();
    case 2:
      return communicator.createCartesian([communicator.size], { periodic: [true] })!;
    default:
      return communicator.split(communicator.rank % draw.between(1, 3))!;
  }
}

/** Whether a communicator is to be left over each time, for the test that the soak notices. */
const leaks = Deno.env.get("DISTMATH_SOAK_LEAK") === "1";

/** Messages around a ring of ranks, at once and prepared, a sum in the background, a reduction by a function. */
export function messages(context: Context): void {
  const { draw, report } = context;
  using communicator = made(context);
  if (leaks) communicator.duplicate();
  const { rank, size } = communicator;
  const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];

  // A column goes from where it lies to where it shall lie.
  const shape = [draw.between(1, 9), draw.between(2, 9)];
  const column = draw.below(shape[1]);
  const columnOf = (array: LocalArray) => array.slice([0, column], [shape[0], 1]);
  const own = partOf(tabulate(shape, ([i, j]) => [rank + i - j, 0]), "float64", draw.order());
  const arrived = LocalArray.zeros("float64", shape, draw.order());
  waitAll([communicator.ireceive(columnOf(arrived), previous), communicator.isend(columnOf(own), next)]);
  const wanted = Array.from({ length: shape[0] }, (_, i) => previous + i - column);
  report(wrongNumbers(columnOf(arrived).toNumbers(), wanted));

  const [value, into] = [new Int32Array(3), new Int32Array(3)];
  using sends = communicator.sendInit(value, next);
  using receives = communicator.receiveInit(into, previous);
  for (let step = draw.below(3); step >= 0; step--) {
    value.fill(10 * step + rank);
    waitAll(startAll([receives, sends]));
    report(wrongNumbers([...into], Array(3).fill(10 * step + previous)));
  }

  const sum = communicator.iallReduce(Float64Array.of(1, rank));
  using largest = new ReductionOperator<Float64Array>((incoming, accumulated) => {
    for (let i = 0; i < incoming.length; i++) accumulated[i] = Math.max(accumulated[i], incoming[i]);
  }, { commutes: draw.once(2) });
  report(wrongNumbers([...communicator.allReduce(Float64Array.of(rank, 3), { op: largest })], [size - 1, 3]));
  report(wrongNumbers([...sum.wait()], [size, size * (size - 1) / 2]));
}
