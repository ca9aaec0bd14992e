/** Memory that ranks share, as they would write it. */
import { FIELDS, PRESENT, WORDS, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import { namesOfFunctions } from "../../../ffi/mpi/waits.ts";

/** The words of a rank; the others are as of one that is here. */
export type Rank = Partial<Record<keyof typeof FIELDS, number>>;

/** What stands for a function. */
export const hashOf = (name: string) => [...namesOfFunctions()].find(([, other]) => other === name)![0];

/** The page of ranks that are here, as `Presence` writes it. */
export function pageOf(ranks: readonly Rank[]): Int32Array {
  const words = new Int32Array(1024);
  words[WORDS.RANKS] = ranks.length;
  ranks.forEach((rank, i) => {
    const all = { STATE: PRESENT.HERE, RANK: i, SCOPE: 5, ...rank };
    for (const [field, value] of Object.entries(all)) {
      words[(i + 1) * WORDS_OF_RANK + FIELDS[field as keyof typeof FIELDS]] = value;
    }
  });
  return words;
}

/** A rank in its twelfth collective call. */
export const reducing = { CALLS: 21, FUNCTION: hashOf("MPI_Allreduce"), TURN: 12 };
