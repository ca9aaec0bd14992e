/**
 * Starts the library, and ends: the empty script of the group `startup`.
 *
 * @module
 */
import { initialize } from "../mod.ts";

using runtime = initialize({ device: "cpu" });
if (runtime.size < 1) throw new Error("A job has at least one rank.");
