// Words are counted by all ranks, each on some lines of a text, and the counts of each word are brought together.
//
//   deno task run -n 2 examples/word_count.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const text = `The sea was calm, and the ship lay still upon the sea.
No wind came, no bird cried, and no man spoke of the land.
At noon the captain said: the wind will come, and the ship will sail.
And the wind came, and the ship sailed, and the sea was white.`;
const lines = world.scatterObject(
  world.rank === 0
    ? Array.from({ length: world.size }, (_, rank) => text.split("\n").filter((_, i) => i % world.size === rank))
    : null,
);

const counts = new Map<string, number>();
for (const word of lines.join(" ").toLowerCase().match(/[a-z]+/g) ?? []) {
  counts.set(word, (counts.get(word) ?? 0) + 1);
}
const all = world.reduceObject(counts, (a, b) => {
  const sum = new Map(a);
  for (const [word, count] of b) sum.set(word, (sum.get(word) ?? 0) + count);
  return sum;
});
if (all !== null) {
  const most = [...all].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 5);
  console.log(most.map(([word, count]) => `${word} ${count}`).join(", "));
}
