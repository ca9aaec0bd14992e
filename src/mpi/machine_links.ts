/**
 * Connections from the first machine of a job to the others: by them the kernels notice within 8 s that a machine is cut off,
 * which MPI over TCP takes a quarter of an hour for, and MPICH's launcher never learns. They carry nothing but reports of
 * ranks that wait for long (`machine_reports.ts`).
 *
 * @module
 */
import {
  acceptAt,
  addressOfHost,
  closeSocket,
  connectTo,
  GETSOCKOPT,
  hostName,
  limitTaking,
  listenAnywhere,
  POLL,
  POLLIN,
  receiveSome,
  sendAll,
  waitFor,
  withPort,
} from "../../ffi/tcp/sockets.ts";
import { attempt } from "../attempt.ts";
import type { Communicator } from "./communicator.ts";

/** A connection to another machine. */
export interface MachineLink {
  readonly socket: number;
  /** Its name. */
  readonly machine: string;
}

/** What {@linkcode lostAmong} needs of the C library. */
export const LINK_SYMBOLS = { poll: POLL, getsockopt: GETSOCKOPT } as const;

/** What a machine tells of itself: a secret of the job, and its name; the first one its port, too. */
const [SECRET_BYTES, NAME_AT, GREETING_BYTES] = [16, 18, 274];
const CONNECT_MILLISECONDS = 1000;

/**
 * Connect the first machine with the others. Collective over the ranks of `own`; the rank that speaks for a machine has its
 * links, all other ranks have none. A machine that cannot be reached by the first one's name, or at its port, has none.
 */
export function linkMachines(own: Communicator, isSpeaker: boolean): MachineLink[] {
  const place = own.rank === 0 ? attempt(listenAnywhere) : null;
  const greeting = own.broadcast(place === null ? new Uint8Array(GREETING_BYTES) : greetingOf(place.port));
  const link = own.rank !== 0 && isSpeaker ? attempt(() => visit(greeting)) : null;
  const [visitors] = own.allReduce(Int32Array.of(link === null ? 0 : 1));
  if (place === null) return link === null ? [] : [link];
  const links = attempt(() => receive(place.listener, visitors, greeting)) ?? [];
  closeSocket(place.listener);
  return links;
}

/** What the first machine tells of itself. */
function greetingOf(port: number): Uint8Array<ArrayBuffer> {
  const greeting = new Uint8Array(GREETING_BYTES);
  crypto.getRandomValues(greeting.subarray(0, SECRET_BYTES));
  new DataView(greeting.buffer).setUint16(SECRET_BYTES, port);
  return withName(greeting);
}

function withName(greeting: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const own = greeting.slice();
  own.fill(0, NAME_AT);
  new TextEncoder().encodeInto(hostName(), own.subarray(NAME_AT));
  return own;
}

const nameIn = (greeting: Uint8Array) => new TextDecoder().decode(greeting.subarray(NAME_AT)).replaceAll("\0", "");

/** Connect to the first machine. */
function visit(greeting: Uint8Array<ArrayBuffer>): MachineLink | null {
  const port = new DataView(greeting.buffer).getUint16(SECRET_BYTES);
  if (port === 0) return null;
  const machine = nameIn(greeting);
  const address = withPort(addressOfHost(machine, "The name of the first machine"), port);
  const socket = connectTo(address, CONNECT_MILLISECONDS);
  if (socket === null) return null;
  limitTaking(socket);
  sendAll(socket, withName(greeting));
  return { socket, machine };
}

/** The connections of as many others, which have sent their greetings; those of strangers are closed. */
function receive(listener: number, visitors: number, greeting: Uint8Array): MachineLink[] {
  const links: MachineLink[] = [];
  const until = performance.now() + CONNECT_MILLISECONDS;
  while (links.length < visitors && performance.now() < until) {
    waitFor([listener], POLLIN, CONNECT_MILLISECONDS);
    const socket = acceptAt(listener);
    if (socket === null) continue;
    limitTaking(socket);
    const told = new Uint8Array(GREETING_BYTES);
    waitFor([socket], POLLIN, CONNECT_MILLISECONDS);
    const isWhole = receiveSome(socket, told) === GREETING_BYTES;
    const isOurs = isWhole && told.subarray(0, SECRET_BYTES).every((byte, i) => byte === greeting[i]);
    if (isOurs) links.push({ socket, machine: nameIn(told) });
    else closeSocket(socket);
  }
  return links;
}

/**
 * The machines that do not answer any more. One whose connection has ended, as with a process, is none of them. Also runs
 * in threads, where it sees nothing of this module.
 */
export function lostAmong(
  links: readonly MachineLink[],
  { poll, getsockopt }: Deno.DynamicLibrary<typeof LINK_SYMBOLS>["symbols"],
): string[] {
  const [pollError, solSocket, soError] = [8, 1, 4];
  const [networkUnreachable, timedOut, hostUnreachable] = [101, 110, 113];
  return links.filter(({ socket }) => {
    const words = Int32Array.of(socket, 0);
    if (poll(words, 1n, 0) !== 1 || (words[1] >>> 16 & pollError) === 0) return false;
    const error = Int32Array.of(0);
    getsockopt(socket, solSocket, soError, error, Uint32Array.of(4));
    return [networkUnreachable, timedOut, hostUnreachable].includes(error[0]);
  }).map(({ machine }) => machine);
}
