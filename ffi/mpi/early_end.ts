/**
 * What launchers need of a process that ends with an error before MPI has started in it, while others wait in MPI_Init.
 *
 * MPICH's Hydra ends the job when a process dies that has spoken to it, as MPI_Init does first of all; one that dies
 * earlier it does not miss. Open MPI 5's prterun hangs if it has to end processes that are just connecting to it.
 *
 * Source: MPICH, src/pm/hydra; PMI-1, the protocol of a socket whose number is in `PMI_FD`.
 *
 * @module
 */
import { environment } from "../library.ts";
import { addressOfPointer, libcFunctions } from "../memory.ts";
import { launcher } from "./launcher.ts";
import { joinPresence } from "./presence.ts";

const LIBC_SYMBOLS = {
  /** `ssize_t send(int sockfd, const void* buf, size_t len, int flags)`; fails on what is no socket. */
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  /** `ssize_t recv(int sockfd, void* buf, size_t len, int flags)` */
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  /** `int poll(struct pollfd* fds, nfds_t nfds, int timeout)` */
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
  /** `int close(int fd)`, for its address. */
  close: { type: "pointer" },
  /** `int usleep(useconds_t usec)`, likewise. */
  usleep: { type: "pointer" },
  /** `int __cxa_atexit(void (*function)(void*), void* argument, void* library)` */
  __cxa_atexit: { parameters: ["u64", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const MSG_NOSIGNAL = 0x4000;
const POLLIN = 1;
/** Hydra fails if it cannot answer. */
const ANSWER_MILLISECONDS = 10_000;
/** For the others to connect to the launcher, or to print their own errors. */
const LINGER_MICROSECONDS = 500_000n;
/** For Hydra to see the socket before the process: Hydra 5 overlooks that a socket is closed if its process has ended. */
const LOOKING_MICROSECONDS = 300_000n;

let isPrepared = false;

/**
 * See to it that the launcher ends the job when this process ends, which then takes 0.8 s longer; nothing without a
 * launcher. To be called before MPI starts, which may still follow.
 */
export function prepareEarlyEnd(): void {
  const starter = launcher();
  if (starter === null || isPrepared) return;
  isPrepared = true;
  const { close, usleep, __cxa_atexit } = libcFunctions(LIBC_SYMBOLS);
  const atExit = (call: Deno.PointerValue, argument: bigint) => __cxa_atexit(addressOfPointer(call), argument, 0n);
  const socket = starter.kind === "mpich" ? greetHydra() : null;
  // What is asked for last is done first.
  if (socket !== null) {
    atExit(usleep, LOOKING_MICROSECONDS);
    atExit(close, BigInt(socket));
  }
  joinPresence()?.removeNameAtExit();
  atExit(usleep, LINGER_MICROSECONDS);
}

/** Speak to Hydra as MPI_Init does; returns the socket, or `null` if there is none. */
function greetHydra(): number | null {
  const socket = Number(environment("PMI_FD"));
  if (!(socket > 0)) return null;
  const { send, recv, poll } = libcFunctions(LIBC_SYMBOLS);
  const greeting = new TextEncoder().encode("cmd=init pmi_version=1 pmi_subversion=1\n");
  if (send(socket, greeting, BigInt(greeting.length), MSG_NOSIGNAL) !== BigInt(greeting.length)) return null;
  // The answer is taken, lest MPI read it instead of its own. struct pollfd is { int fd; short events; short revents; }.
  if (poll(Int32Array.of(socket, POLLIN), 1n, ANSWER_MILLISECONDS) > 0) recv(socket, new Uint8Array(256), 256n, 0);
  return socket;
}
