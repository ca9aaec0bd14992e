/**
 * What is planned, in the words that all operations share.
 *
 * @module
 */
import { describeShare } from "../distribution/communication.ts";
import type { CommunicationMatrix } from "../distribution/mod.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { AlgorithmTimes } from "./host_model.ts";

/** What is planned. */
export interface Planned {
  /** The engine's name, of what has engines. */
  readonly engine?: string;
  readonly algorithm: string;
  /** Details of the algorithm. */
  readonly variant?: string;
  /** What an execution does, one thing a line. */
  readonly steps?: readonly string[];
  /** Bytes of buffers that are held on this rank. */
  readonly workspaceBytes: number;
  /** Bytes that leave ranks, over all ranks, in one execution. */
  readonly bytesMoved: number;
  /** Bytes that a library sends besides, without telling, at least; null if nothing is known of them. */
  readonly libraryBytes?: number | null;
  /** Who sends what to whom; null if a library does not tell. */
  readonly communication: CommunicationMatrix | null;
  /** What is known of the time; null if there is no model. */
  readonly times: AlgorithmTimes | null;
  readonly notes?: readonly string[];
}

/** A plan in words, a line each. */
export function explainPlan(planned: Planned, { rank, size, localSize }: Runtime): string[] {
  const { engine, algorithm, variant, steps = [], workspaceBytes, times, notes = [] } = planned;
  const details = [
    ...steps,
    `workspace ${workspaceBytes} bytes on this rank, ${explainBytes(planned)}`,
    ...explainShare(planned, rank, size),
    times
      ? explainTimes(times)
      : `no time is predicted: there is no model of ${engine === undefined ? algorithm : `engine ${engine}`} here` +
        (size === localSize ? "" : ", or nothing was sent between the machines yet"),
    ...notes.map((note) => `note: ${note}`),
  ];
  const title = `algorithm ${algorithm}${variant === undefined ? "" : `: ${variant}`}`;
  return [engine === undefined ? title : `engine ${engine}, ${title}`, ...details.map((line) => `  ${line}`)];
}

function explainBytes({ bytesMoved, libraryBytes }: Planned): string {
  const between = "bytes between ranks an execution";
  if (libraryBytes === undefined) return `${bytesMoved} ${between}`;
  if (libraryBytes === null) return `${bytesMoved} ${between}, and an unknown number that the library sends`;
  return `at least ${bytesMoved + libraryBytes} ${between}`;
}

/** What is known of this rank's share. */
function explainShare({ bytesMoved, libraryBytes, communication }: Planned, rank: number, size: number): string[] {
  if (communication === null) {
    const average = `${Math.round(bytesMoved / size)} of them from each rank on average`;
    return bytesMoved > 0 ? [`${average}: nothing tells which rank sends what to whom`] : [];
  }
  const share = describeShare(communication, rank);
  if (libraryBytes === undefined) return [...communication.notes, share];
  return [...communication.notes, ...communication.total > 0 ? [`of the rest ${share}`] : []];
}

function explainTimes({ predicted, measured, limit, basis }: AlgorithmTimes): string {
  const time = (seconds: number) =>
    `${(1e6 * seconds).toFixed(1)} us, ${(100 * limit / seconds).toFixed(0)} % of the limit`;
  const model = `predicted ${time(predicted)} (${(1e6 * limit).toFixed(1)} us)`;
  const words = basis === undefined ? model : `${model}, ${basis}`;
  if (measured !== undefined) return `${words}; measured ${time(measured)}`;
  return basis === undefined ? `${words}; not measured` : words;
}
