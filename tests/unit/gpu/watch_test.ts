/** What is looked for whenever the host has waited for a GPU. */
import { assertEquals, assertThrows } from "@std/assert";
import { checkWatches, watch } from "../../../src/gpu/watch.ts";

Deno.test("what is watched for is thrown by the next check, and no more once nobody watches", () => {
  let checks = 0;
  {
    using _counting = watch(() => void checks++);
    using _failing = watch(() => {
      throw new Error("a rank did not come");
    });
    assertThrows(checkWatches, Error, "a rank did not come");
    assertEquals(checks, 1);
  }
  checkWatches();
  assertEquals(checks, 1);
});
