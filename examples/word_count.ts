// Words are counted by all ranks, each on some lines of a text, and the counts of each word are brought together.
//
//   deno task run -n 2 examples/word_count.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const text = `The sea was calm, and the ship lay still upon the sea.
No wind came, no bird cried, and no man spoke of the land.
At noon the captain said: the wind will come, and the ship will sail.
And the wind came, and the ship sailed, and the sea was white.`;

/** Adds counts to those that there are. */
function add(counts: Map<string, number>, others: Iterable<[string, number]>): Map<string, number> {
  for (const [word, count] of others) counts.set(word, (counts.get(word) ?? 0) + count);
  return counts;
}

const lines = text.split("\n").filter((_, i) => i % world.size === world.rank);
const words = lines.join(" ").toLowerCase().match(/[a-z]+/g) ?? [];
const all = world.reduceObject(add(new Map(), words.map((word) => [word, 1])), add);
if (all !== null) {
  const most = [...all].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 5);
  console.log(most.map(([word, count]) => `${word} ${count}`).join(", "));
}
