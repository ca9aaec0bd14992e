/** What the soak draws by chance: numbers, shapes, distributions. The same on all ranks, since it follows from the seed. */
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Corners,
  type Distribution,
  type Order,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../mod.ts";

/** A generator of whole numbers, each stream of them given by two numbers. Source: splitmix32. */
export class Draw {
  #state: number;

  constructor(seed: number, stream: number) {
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(stream + 1, 0xc2b2ae35);
  }

  /** A number from 0 to `end - 1`. */
  below(end: number): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return Math.floor(((x ^ (x >>> 15)) >>> 0) / 2 ** 32 * end);
  }

  /** A number from `low` to `high`. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)];
  }

  /** True once in `times` times. */
  once(times: number): boolean {
    return this.below(times) === 0;
  }

  order(): Order {
    return this.pick(["C", "F"]);
  }

  /**
   * Extents, small ones, now and then empty or larger. Not so large that freed memory is kept for other arrays, which would
   * look like a leak.
   */
  shape(dimensions = this.between(1, 3)): number[] {
    const largest = this.once(60) ? [3000, 120, 20][dimensions - 1] : 9;
    return Array.from({ length: dimensions }, () => this.once(25) ? 0 : this.between(1, largest));
  }

  /** A half-open range of a dimension. */
  range(extent: number): [number, number] {
    const [a, b] = [this.between(0, extent), this.between(0, extent)];
    return [Math.min(a, b), Math.max(a, b)];
  }

  /** A grid of some of the ranks, in any order. */
  grid(dimensions: number, size: number): ProcessGrid {
    const shape = new Array<number>(dimensions).fill(1);
    let left = size;
    for (let tries = 0; tries < 3; tries++) {
      const factor = this.between(1, left);
      shape[this.below(dimensions)] *= factor;
      left = Math.floor(left / factor);
    }
    const used = shape.reduce((product, extent) => product * extent, 1);
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    for (let i = size - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [ranks[i], ranks[j]] = [ranks[j], ranks[i]];
    }
    const processes = this.once(2) ? ranks.slice(0, used) : null;
    return new ProcessGrid({ shape, layout: this.pick(["row-major", "column-major"]), processes });
  }

  /** A distribution, not bound, of arrays of a shape. */
  distribution(shape: readonly number[], size: number): Distribution {
    const dimensions = shape.length;
    switch (this.below(6)) {
      case 0:
        return Replicated;
      case 1:
        return this.#box(shape, size);
      case 2:
        return new BlockNonCyclic(this.grid(dimensions, size));
      case 3:
      case 4: {
        const grid = this.grid(dimensions, size);
        const firstProcess = grid.shape.map((extent) => this.below(extent));
        return new BlockCyclic(grid, shape.map(() => this.between(1, 4)), { firstProcess });
      }
      default:
        return new Slab(this.below(dimensions));
    }
  }

  /** Boxes along one dimension, some of them empty, in any order of the ranks. */
  #box(shape: readonly number[], size: number): Box {
    const dimension = this.below(shape.length);
    const cuts = [0, ...Array.from({ length: size - 1 }, () => this.between(0, shape[dimension])), shape[dimension]];
    cuts.sort((a, b) => a - b);
    const boxes = cuts.slice(1).map((end, i): Corners => [
      shape.map((_, d) => d === dimension ? cuts[i] : 0),
      shape.map((extent, d) => d === dimension ? end : extent),
    ]);
    const turn = this.below(size);
    return new Box([...boxes.slice(turn), ...boxes.slice(0, turn)]);
  }
}
