/**
 * What scripts would write again and again: a share of a list, values that go around, counts by key, one line of output.
 *
 * @module
 */
import { describe, isObject } from "../options.ts";
import { checkCombine } from "./checks.ts";
import { refuseFreed } from "./communicator_handle.ts";
import { NO_OPTIONS, type ObjectOptions, OptionKeys, refuseExtra } from "./communicator_options.ts";
import { ObjectMethods } from "./object_methods.ts";

/** The largest tag that every MPI has: values that go around seldom meet the script's own messages by it. */
const RING_TAG = 32_767;

/** The methods of a communicator that are short for a few lines of others. */
export abstract class ScriptMethods extends ObjectMethods {
  /**
   * Write to the standard output on rank 0 alone, as `console.log` does. What is printed is computed on every rank, so that
   * collective calls may stand in it; behind `if (rank === 0)` they would wait for ever. Not collective.
   *
   * @example
   * ```ts
   * import { Communicator } from "@distmath/distmath";
   * const world = Communicator.world();
   * world.print(`the sum of all ranks: ${world.allReduce(Int32Array.of(world.rank))[0]}`);
   * ```
   */
  print(...values: unknown[]): void {
    if (this.rank === 0) console.log(...values);
  }

  /**
   * This rank's share of a list that all ranks have: every size-th item, from the one with the rank's number on. Nothing
   * is communicated.
   *
   * @example
   * ```ts
   * import { Communicator } from "@distmath/distmath";
   * const world = Communicator.world();
   * for (const file of world.deal(["a.npy", "b.npy", "c.npy"])) console.log(world.rank, file);
   * ```
   */
  deal<T>(items: Iterable<T>): T[] {
    if (arguments.length > 1) refuseExtra("deal", "items");
    return iterated("deal", "items", items).filter((_, i) => i % this.size === this.rank);
  }

  /**
   * The values of all ranks, which go around: first this rank's own, then that of the rank before it, and so on, each handed
   * on when the next one is asked for. No rank ever holds more than one. All ranks take equally many. It is how rings of
   * attention and Cannon's product move their blocks. Collective.
   *
   * @example
   * ```ts
   * import { Communicator } from "@distmath/distmath";
   * const world = Communicator.world();
   * let sum = 0;
   * for (const value of world.ringObject(world.rank)) sum += value;
   * console.assert(sum === world.size * (world.size - 1) / 2);
   * ```
   */
  *ringObject<T>(value: T): Generator<T, void> {
    if (arguments.length > 1) refuseExtra("ringObject", "value");
    refuseFreed(this, "ringObject");
    const { rank, size } = this;
    yield value;
    for (let step = 1; step < size; step++) {
      const source = (rank + size - 1) % size;
      value = this.sendReceiveObject(value, (rank + 1) % size, { source, tag: RING_TAG, receiveTag: RING_TAG });
      yield value;
    }
  }

  /**
   * Combine the values that ranks have for the same key, on the root, from rank 0 upwards; `null` on the others. Each rank
   * combines its own first, so that every key travels once. Keys are what a `Map` holds apart: strings, numbers, bigints, ….
   * It is what Spark calls reduceByKey. Collective.
   *
   * @throws {TypeError} on the rank that gives no pairs, or no function.
   *
   * @example
   * ```ts
   * import { Communicator } from "@distmath/distmath";
   * const world = Communicator.world();
   * const words = world.deal("to be or not to be".split(" "));
   * const counts = world.reduceByKey(words.map((word) => [word, 1]), (a, b) => a + b);
   * world.print(counts?.get("be")); // 2
   * ```
   */
  reduceByKey<K, V>(
    entries: Iterable<readonly [key: K, value: V]>,
    combine: (a: V, b: V) => V,
    options: ObjectOptions = NO_OPTIONS,
  ): Map<K, V> | null {
    if (arguments.length > 3) refuseExtra("reduceByKey", "entries, combine", OptionKeys.object);
    checkCombine("reduceByKey", combine);
    const pairs = iterated("reduceByKey", "entries", entries);
    for (const pair of pairs) {
      if (Array.isArray(pair) && pair.length === 2) continue;
      throw new TypeError(`reduceByKey: an entry must be [key, value], not ${describe(pair)}.`);
    }
    const own = new Map<K, V>();
    merge(own, pairs, combine);
    return this.reduceObject(own, (all, more) => merge(all, more, combine), options);
  }
}

/** Take pairs into a map, which it returns. */
function merge<K, V>(all: Map<K, V>, pairs: Iterable<readonly [K, V]>, combine: (a: V, b: V) => V): Map<K, V> {
  for (const [key, value] of pairs) all.set(key, all.has(key) ? combine(all.get(key)!, value) : value);
  return all;
}

/** What an iterable gives, as a list. */
function iterated<T>(method: string, name: string, values: Iterable<T>): T[] {
  if (typeof values === "string" || (isObject(values) && Symbol.iterator in values)) return [...values];
  throw new TypeError(`${method}: ${name} must be a list or another iterable, not ${describe(values)}.`);
}
