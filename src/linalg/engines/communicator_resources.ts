/**
 * What plans share: native objects that are made for a communicator by all of its ranks together.
 *
 * Making one communicates, so it is made once for a communicator and shared by the plans that use it. When the last plan
 * is disposed, it waits for the next one, until the ranks free what they have disposed of.
 *
 * @module
 */
import { Communicator } from "../../mpi/communicator.ts";
import { forgetCollectiveFree, keepForReuse } from "../../mpi/collective_free.ts";

interface Shared<T> {
  /** The same on all ranks of the communicator, and on no others. */
  readonly key: string;
  readonly value: T;
  users: number;
}

const shared = new WeakMap<Communicator, Map<string, Shared<unknown>>>();
let made = 0;

/** A plan's use of what it shares. */
export interface Use<T> extends Disposable {
  readonly value: T;
}

/**
 * Use what a communicator has under a name; the first user has it made, and it is freed some time after the last one.
 * Collective.
 */
export function useShared<T>(
  communicator: Communicator,
  name: string,
  make: () => T,
  free: (value: T) => void,
): Use<T> {
  let ofCommunicator = shared.get(communicator);
  if (!ofCommunicator) shared.set(communicator, ofCommunicator = new Map());
  let entry = ofCommunicator.get(name) as Shared<T> | undefined;
  if (!entry) {
    const key = communicator.broadcastObject(`shared ${Communicator.world().rank}/${made++}`);
    entry = { key, value: make(), users: 0 };
    ofCommunicator.set(name, entry);
  }
  return new SharedUse(entry, communicator.size, () => {
    ofCommunicator.delete(name);
    free(entry.value);
  });
}

/**
 * A duplicate with the same ranks, so that the messages of engines never meet those of the script; shared by the plans on a
 * communicator. Collective.
 */
export function usePrivateCommunicator(communicator: Communicator): Use<Communicator> {
  return useShared(communicator, "private", () => communicator.duplicate(), (copy) => copy.free());
}

class SharedUse<T> implements Use<T> {
  readonly #shared: Shared<T>;
  readonly #members: number;
  readonly #free: () => void;
  #isDisposed = false;

  constructor(shared: Shared<T>, members: number, free: () => void) {
    this.#shared = shared;
    this.#members = members;
    this.#free = free;
    if (shared.users++ === 0) forgetCollectiveFree(shared.key);
  }

  get value(): T {
    return this.#shared.value;
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (--this.#shared.users === 0) keepForReuse(this.#shared.key, this.#members, this.#free);
  }
}
