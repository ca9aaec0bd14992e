/**
 * TCP by the C library's sockets, whose calls wait where Deno's own would need an event loop. A socket is its number.
 *
 * All of them return at once, and are waited for by `poll`, so that no call needs `errno`, which Deno does not keep.
 * Sources: Linux's socket(2), tcp(7), poll(2); RFC 3493.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import { copyFromAddress, fromCString, libcFunctions, toCString } from "../memory.ts";

const SYMBOLS = {
  /** `int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** res)` */
  getaddrinfo: { parameters: ["buffer", "u64", "u64", "buffer"], result: "i32" },
  /** `void freeaddrinfo(struct addrinfo* res)` */
  freeaddrinfo: { parameters: ["u64"], result: "void" },
  /** `int gethostname(char* name, size_t len)` */
  gethostname: { parameters: ["buffer", "usize"], result: "i32" },
  /** `int socket(int domain, int type, int protocol)` */
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  /** `int setsockopt(int sockfd, int level, int optname, const void* optval, socklen_t optlen)` */
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  /** `int getsockopt(int sockfd, int level, int optname, void* optval, socklen_t* optlen)` */
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  /** `int getsockname(int sockfd, struct sockaddr* addr, socklen_t* addrlen)` */
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  /** `int bind(int sockfd, const struct sockaddr* addr, socklen_t addrlen)` */
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  /** `int listen(int sockfd, int backlog)` */
  listen: { parameters: ["i32", "i32"], result: "i32" },
  /** `int accept4(int sockfd, struct sockaddr* addr, socklen_t* addrlen, int flags)` */
  accept4: { parameters: ["i32", "u64", "u64", "i32"], result: "i32" },
  /** `int connect(int sockfd, const struct sockaddr* addr, socklen_t addrlen)` */
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  /** `int getpeername(int sockfd, struct sockaddr* addr, socklen_t* addrlen)` */
  getpeername: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  /** `int poll(struct pollfd* fds, nfds_t nfds, int timeout)` */
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32" },
  /** `ssize_t send(int sockfd, const void* buf, size_t len, int flags)` */
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  /** `ssize_t recv(int sockfd, void* buf, size_t len, int flags)` */
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  /** `int close(int fd)` */
  close: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What a thread needs that reads and writes sockets. */
export const { poll: POLL, send: SEND, recv: RECV, getsockopt: GETSOCKOPT } = SYMBOLS;

let opened: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const libc = () => opened ??= libcFunctions(SYMBOLS);

const AF_INET = 2;
const AF_INET6 = 10;
/** Of `struct sockaddr_in` and `sockaddr_in6`. */
const ADDRESS_BYTES = { [AF_INET]: 16, [AF_INET6]: 28 } as const;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SO_KEEPALIVE = 9;
const IPPROTO_TCP = 6;
const TCP_NODELAY = 1;
const TCP_KEEPIDLE = 4;
const TCP_KEEPINTVL = 5;
const TCP_KEEPCNT = 6;
const TCP_USER_TIMEOUT = 18;
const MSG_NOSIGNAL = 0x4000;
const BACKLOG = 4096;
const NO_SOCKET = -1;

/** What `poll` is asked for, and what it tells. */
export const POLLIN = 1;
const POLLOUT = 4;
const POLLERR_HUP_NVAL = 8 | 16 | 32;

/**
 * A machine that does not answer any more is gone after 8 s. There is no limit on data that nobody takes, as the end of a
 * connection may be that of a rank that computes; each rank has another connection that carries none.
 */
const KEEPALIVE = { idleSeconds: 4, intervalSeconds: 1, probes: 4 };

/** A place to connect to or to listen at: `struct sockaddr_in` or `sockaddr_in6`. */
export type Address = Uint8Array<ArrayBuffer>;

/**
 * The address of a machine by its name, one of IPv4 if it has such; with port 0. Waits for the name server.
 *
 * @throws {ConfigurationError} if it has none.
 */
export function addressOfHost(name: string, variable: string): Address {
  const list = new BigUint64Array(1);
  if (libc().getaddrinfo(toCString(name), 0n, 0n, list) !== 0) {
    throw new ConfigurationError(
      `${variable} is ${JSON.stringify(name)}, and this machine knows no address by that name. Give the name or the ` +
        "address of a machine of the job that all ranks can reach.",
    );
  }
  const found: Address[] = [];
  // struct addrinfo { int ai_flags, ai_family, ai_socktype, ai_protocol; socklen_t ai_addrlen;
  //   struct sockaddr* ai_addr; char* ai_canonname; struct addrinfo* ai_next; }
  for (let at = list[0]; at !== 0n;) {
    const fields = new BigUint64Array(6);
    copyFromAddress(fields, at);
    const address = new Uint8Array(Number(fields[2] & 0xffffffffn));
    copyFromAddress(address, fields[3]);
    found.push(address);
    at = fields[5];
  }
  libc().freeaddrinfo(list[0]);
  return found.find((address) => familyOf(address) === AF_INET) ?? found[0];
}

const familyOf = (address: Address) => address[0] | address[1] << 8;

export function withPort(address: Address, port: number): Address {
  const copy = address.slice();
  new DataView(copy.buffer).setUint16(2, port);
  return copy;
}

/** All addresses of this machine, of the family of this one. */
export function everyAddress(like: Address): Address {
  const address = new Uint8Array(like.length);
  address.set(like.subarray(0, 2));
  return address;
}

/** Whether only processes of this machine can reach an address. */
export function isLoopback(address: Address): boolean {
  if (familyOf(address) === AF_INET) return address[4] === 127;
  return address.subarray(8, 23).every((byte) => byte === 0) && address[23] === 1;
}

export function hostName(): string {
  const name = new Uint8Array(256);
  libc().gethostname(name, BigInt(name.length - 1));
  return fromCString(name);
}

function newSocket(address: Address): number {
  return libc().socket(familyOf(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

function setOption(socket: number, level: number, option: number, value: number): void {
  libc().setsockopt(socket, level, option, Int32Array.of(value), 4);
}

/** A socket that listens; `null` if the address is not this machine's, or the port is taken. */
export function listenAt(address: Address): number | null {
  const socket = newSocket(address);
  // The port of a job that has just ended can be had again.
  setOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  const { bind, listen } = libc();
  if (bind(socket, address, address.length) === 0 && listen(socket, BACKLOG) === 0) return socket;
  closeSocket(socket);
  return null;
}

/** A socket that listens at all addresses of this machine, and its port, which is a free one; `null` if there is none. */
export function listenAnywhere(): { listener: number; port: number } | null {
  // That of IPv6 takes IPv4's connections, too.
  for (const family of [AF_INET6, AF_INET] as const) {
    const address = new Uint8Array(ADDRESS_BYTES[family]);
    address[0] = family;
    const listener = listenAt(address);
    if (listener === null) continue;
    libc().getsockname(listener, address, Uint32Array.of(address.length));
    return { listener, port: new DataView(address.buffer).getUint16(2) };
  }
  return null;
}

/** Whether an address is one of this machine's. */
export function isOwnAddress(address: Address): boolean {
  const socket = newSocket(address);
  const isOwn = libc().bind(socket, withPort(address, 0), address.length) === 0;
  closeSocket(socket);
  return isOwn;
}

/** The next connection; `null` if there is none. */
export function acceptAt(listener: number): number | null {
  const socket = libc().accept4(listener, 0n, 0n, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket === NO_SOCKET) return null;
  prepare(socket);
  return socket;
}

/** A connection; `null` if there is none within so many milliseconds. */
export function connectTo(address: Address, milliseconds: number): number | null {
  const socket = newSocket(address);
  const { connect, getpeername } = libc();
  if (connect(socket, address, address.length) !== 0) waitFor([socket], POLLOUT, milliseconds);
  if (getpeername(socket, new Uint8Array(128), Uint32Array.of(128)) === 0) {
    prepare(socket);
    return socket;
  }
  closeSocket(socket);
  return null;
}

function prepare(socket: number): void {
  setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE.idleSeconds);
  setOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE.intervalSeconds);
  setOption(socket, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE.probes);
}

/**
 * Have a connection end when data is not taken for as long as a machine may be silent: while data is on its way nobody asks
 * whether the other one is still there.
 */
export function limitTaking(socket: number): void {
  const { idleSeconds, intervalSeconds, probes } = KEEPALIVE;
  setOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, (idleSeconds + intervalSeconds * probes) * 1000);
}

export function closeSocket(socket: number): void {
  libc().close(socket);
}

/** Which of the sockets have something to read or to tell; waits for one for so many milliseconds, for ever if -1. */
export function waitFor(sockets: readonly number[], events: number, milliseconds: number): boolean[] {
  // struct pollfd { int fd; short events; short revents; }
  const words = Int32Array.from(sockets.flatMap((socket) => [socket, events]));
  const count = libc().poll(words, BigInt(sockets.length), milliseconds);
  return sockets.map((_, i) => count > 0 && words[2 * i + 1] >>> 16 !== 0);
}

const cell = new Int32Array(2);

/** Wait until a socket takes or has data; whether its connection is still good. */
function isGood(socket: number, events: number): boolean {
  cell[0] = socket;
  do cell[1] = events; while (libc().poll(cell, 1n, -1) !== 1);
  const told = cell[1] >>> 16;
  // What came before the end can still be read.
  return (told & POLLERR_HUP_NVAL) === 0 || (events === POLLIN && (told & POLLIN) !== 0);
}

/** What is there to be read, up to the size of `into`: the number of bytes; 0 for nothing yet, -1 at the end. */
export function receiveSome(socket: number, into: Uint8Array): number {
  const [isReady] = waitFor([socket], POLLIN, 0);
  if (!isReady) return 0;
  const count = Number(libc().recv(socket, into, BigInt(into.length), 0));
  return count > 0 ? count : -1;
}

/** Fill an array from a socket; whether it came to that before the connection ended. */
export function receiveAll(socket: number, into: Uint8Array): boolean {
  for (let at = 0; at < into.length;) {
    const isReady = isGood(socket, POLLIN);
    const count = Number(libc().recv(socket, into.subarray(at), BigInt(into.length - at), 0));
    if (count > 0) at += count;
    else if (count === 0 || !isReady) return false;
  }
  return true;
}

/** Send an array; whether it came to that before the connection ended. */
export function sendAll(socket: number, from: Uint8Array): boolean {
  for (let at = 0; at < from.length;) {
    const count = Number(libc().send(socket, from.subarray(at), BigInt(from.length - at), MSG_NOSIGNAL));
    if (count > 0) at += count;
    else if (!isGood(socket, POLLOUT)) return false;
  }
  return true;
}
