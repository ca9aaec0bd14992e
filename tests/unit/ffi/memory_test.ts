import { assert } from "@std/assert";

/** Page faults of a process that writes 16 MiB from the C library, gives them back and does it again: of the second time. */
async function faultsOfSecondBlock(before: string): Promise<number> {
  const script = `
    import { keepFreedMemory, libcFunctions } from "${import.meta.resolve("../../../ffi/memory.ts")}";
    const { prctl, malloc, memset, free } = libcFunctions({
      prctl: { parameters: ["i32", "u64", "u64", "u64", "u64"], result: "i32" },
      malloc: { parameters: ["usize"], result: "u64" },
      memset: { parameters: ["u64", "i32", "usize"], result: "u64" },
      free: { parameters: ["u64"], result: "void" },
    });
    const bytes = 2n ** 24n;
    const faults = () => Number(Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ")[7]);
    const PR_SET_THP_DISABLE = 41; // a huge page is one fault
    prctl(PR_SET_THP_DISABLE, 1n, 0n, 0n, 0n);
    ${before};
    free(memset(malloc(bytes), 1, bytes));
    const start = faults();
    free(memset(malloc(bytes), 1, bytes));
    console.log(faults() - start);`;
  const { stdout, stderr, success } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--ext=ts", script],
    env: { NO_COLOR: "1" },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return Number(new TextDecoder().decode(stdout));
}

Deno.test("keepFreedMemory keeps the pages of freed memory for the next block", async () => {
  const pages = 2 ** 12;
  assert(await faultsOfSecondBlock("") > pages / 2);
  // Other threads of the process may have faults of their own.
  const kept = [1, 2, 3].map(() => faultsOfSecondBlock("keepFreedMemory(2 ** 28)"));
  assert(Math.min(...await Promise.all(kept)) < pages / 8);
  assert(await faultsOfSecondBlock("keepFreedMemory(0)") > pages / 2);
});
