/**
 * MPICH's launcher Hydra ends a job when a process dies that has spoken to it, as MPI_Init does first of all. One that
 * dies earlier it does not miss: the others wait for it in MPI_Init for ever.
 *
 * Source: MPICH, src/pm/hydra; PMI-1, the protocol of a socket whose number is in `PMI_FD`.
 *
 * @module
 */
import { environment } from "../library.ts";
import { addressOfPointer, libcFunctions } from "../memory.ts";

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
const ANSWER_MILLISECONDS = 1000;
const LOOKING_MICROSECONDS = 300_000n;

let isAnnounced = false;

/**
 * Make Hydra miss this process, so that it ends the job when the process ends; nothing under other launchers. To be
 * called before MPI starts, which may still follow.
 */
export function announceToHydra(): void {
  const socket = Number(environment("PMI_FD"));
  if (!(socket > 0) || isAnnounced) return;
  isAnnounced = true;
  const { send, recv, poll, close, usleep, __cxa_atexit } = libcFunctions(LIBC_SYMBOLS);
  const greeting = new TextEncoder().encode("cmd=init pmi_version=1 pmi_subversion=1\n");
  if (send(socket, greeting, BigInt(greeting.length), MSG_NOSIGNAL) !== BigInt(greeting.length)) return;
  // The answer is taken, lest MPI read it instead of its own. struct pollfd is { int fd; short events; short revents; }.
  if (poll(Int32Array.of(socket, POLLIN), 1n, ANSWER_MILLISECONDS) > 0) recv(socket, new Uint8Array(256), 256n, 0);
  // Hydra 5 overlooks that a socket was closed if it sees first that the process has ended. What is asked for last is done
  // first.
  __cxa_atexit(addressOfPointer(usleep), LOOKING_MICROSECONDS, 0n);
  __cxa_atexit(addressOfPointer(close), BigInt(socket), 0n);
}
