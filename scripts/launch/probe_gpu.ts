/**
 * Started by `doctor` in a process of its own, since a native library that does not fit the others can end it: prints
 * what it sees of GPUs as one line of JSON.
 *
 * @module
 */
import { inspectGpus } from "../../internals.ts";

/** Begins the line with the result, among whatever else is printed. */
export const gpuMarker = "distmath GPU report: ";

if (import.meta.main) console.log(`${gpuMarker}${JSON.stringify(inspectGpus())}`);
