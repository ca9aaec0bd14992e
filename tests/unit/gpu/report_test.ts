import { assertEquals } from "@std/assert";
import { parseDriverVersion } from "../../../src/gpu/report.ts";

Deno.test("parseDriverVersion() reads what the kernel's module says of itself", () => {
  const open = `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
`;
  assertEquals(parseDriverVersion(open), "580.95.05");
  assertEquals(
    parseDriverVersion("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Wed Jun 11 01:34:25 UTC 2025\n"),
    "535.261.03",
  );
  assertEquals(parseDriverVersion("550.54\n"), "550.54");
  assertEquals(parseDriverVersion(""), null);
});
