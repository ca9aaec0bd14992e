/**
 * MPI for scripts.
 *
 * @module
 */
export { MpiError, type ReduceOperation } from "../../ffi/mpi/mod.ts";
export type { BackgroundMethods } from "./background_methods.ts";
export type { CartesianMethods, CartesianOptions, Shift } from "./cartesian.ts";
export type { CollectiveMethods } from "./collective_methods.ts";
export { Communicator } from "./communicator.ts";
export type { CommunicatorHandle } from "./communicator_handle.ts";
export type { Counts } from "./counts.ts";
export type { ElementName, NumericArray } from "./elements.ts";
export { Request, type Status, waitAll, waitAny } from "./request.ts";
export type {
  AllToAllVOptions,
  ElementOptions,
  GatherVOptions,
  GatherVRootOptions,
  IntoOptions,
  ObjectOptions,
  ReceiveOptions,
  ReduceOptions,
  ReduceRootOptions,
  ReduceScatterOptions,
  RootOptions,
  ScatterOptions,
  ScatterVOptions,
  SendOptions,
  SendReceiveOptions,
  Source,
} from "./communicator_options.ts";
export { mapTasks } from "./map_tasks.ts";
export type { MessageMethods } from "./message_methods.ts";
export { type Combine, type OperationWord, type OperatorOptions, ReductionOperator } from "./operator.ts";
export { PersistentRequest, startAll, type Started } from "./persistent.ts";
export type { MessageArray, StridedView } from "./strided.ts";
export type { ObjectMethods } from "./object_methods.ts";
export type { ReductionMethods } from "./reduction_methods.ts";
export type { ScriptMethods } from "./script_methods.ts";
