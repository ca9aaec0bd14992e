/**
 * GPUs: devices, the order of work on them, how they communicate, and what is there.
 *
 * @module
 */
export { Device } from "./device.ts";
export { Graph } from "./graph.ts";
export { Event, type EventOptions } from "./event.ts";
export { Stream, type StreamOptions } from "./stream.ts";
