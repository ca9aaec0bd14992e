// Words are counted by all ranks, each on some lines of a text, and the counts of each word are brought together.
//
//   deno task run -n 2 examples/word_count.ts
import { Communicator } from "../mod.ts";

const world = Communicator.world();
const text = `The sea was calm, and the ship lay still upon the sea.
No wind came, no bird cried, and no man spoke of the land.
At noon the captain said: the wind will come, and the ship will sail.
And the wind came, and the ship sailed, and the sea was white.`;

const words = world.deal(text.split("\n")).join(" ").toLowerCase().match(/[a-z]+/g) ?? [];
const counts = world.reduceByKey(words.map((word) => [word, 1]), (a, b) => a + b) ?? new Map();
world.print([...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 5).join("; "));
