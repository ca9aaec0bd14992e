/** Which machines are lost, by what the kernel tells of their connections. */
import { assertEquals } from "@std/assert";
import { lostAmong, type MachineLink } from "../../../src/mpi/machine_links.ts";

/** As the C library answers for sockets with these errors; none stands for a connection that is well. */
function libcWith(errors: ReadonlyMap<number, number>) {
  const POLLERR = 8;
  return {
    poll(words: Int32Array) {
      if (!errors.has(words[0])) return 0;
      words[1] = POLLERR << 16;
      return 1;
    },
    getsockopt(socket: number, _level: number, _option: number, value: Int32Array) {
      value[0] = errors.get(socket)!;
      return 0;
    },
  } as unknown as Parameters<typeof lostAmong>[1];
}

Deno.test("a machine is lost that does not answer, not one that closes its connection", () => {
  const links: MachineLink[] = ["a", "b", "c", "d", "e"].map((machine, i) => ({ socket: i + 3, machine }));
  const [ENETUNREACH, ECONNRESET, ETIMEDOUT, EHOSTUNREACH] = [101, 104, 110, 113];
  const errors = new Map([[3, ETIMEDOUT], [4, ECONNRESET], [5, EHOSTUNREACH], [7, ENETUNREACH]]);
  assertEquals(lostAmong(links, libcWith(errors)), ["a", "c", "e"]);
  assertEquals(lostAmong([], libcWith(errors)), []);
});
