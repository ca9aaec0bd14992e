import { assert, assertEquals } from "@std/assert";
import { FrameReader, sendFrame } from "../../../ffi/tcp/frames.ts";
import { libcFunctions } from "../../../ffi/memory.ts";
import {
  acceptAt,
  addressOfHost,
  closeSocket,
  connectTo,
  listenAt,
  waitFor,
  withPort,
} from "../../../ffi/tcp/sockets.ts";
import { freePort } from "../../system/ranks_by_hand.ts";

const [SOL_SOCKET, SO_KEEPALIVE] = [1, 9];
const [IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT] = [6, 4, 5, 6, 18];
const POLLIN = 1;

function connect(): { near: number; far: number; listener: number } {
  const address = withPort(addressOfHost("127.0.0.1", "MASTER_ADDR"), freePort());
  const listener = listenAt(address)!;
  const near = connectTo(address, 1000)!;
  waitFor([listener], POLLIN, 1000);
  return { near, far: acceptAt(listener)!, listener };
}

Deno.test("what comes from a rank is an object; other JSON behind the mark is a stranger's", () => {
  for (const [sent, frame] of [[{ rank: 1 }, { value: { rank: 1 } }], [null, "strange"], [3, "strange"]]) {
    const { near, far, listener } = connect();
    assert(sendFrame(near, sent));
    waitFor([far], POLLIN, 1000);
    assertEquals(new FrameReader(far).read(), frame as { value: unknown });
    for (const socket of [near, far, listener]) closeSocket(socket);
  }
});

Deno.test("a machine that is gone is missed within 10 s, a rank that takes no data as long as it likes", () => {
  const { getsockopt } = libcFunctions({
    /** `int getsockopt(int sockfd, int level, int optname, void* optval, socklen_t* optlen)` */
    getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  });
  const option = (socket: number, level: number, name: number) => {
    const value = new Int32Array(1);
    assertEquals(getsockopt(socket, level, name, value, Uint32Array.of(4)), 0);
    return value[0];
  };
  const { near, far, listener } = connect();
  for (const socket of [near, far]) {
    assertEquals(option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
    const [idle, interval, probes] = [TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT].map((name) =>
      option(socket, IPPROTO_TCP, name)
    );
    assert(idle + interval * probes < 10);
    // Linux would end a connection whose other end is busy with something else.
    assertEquals(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  }
  for (const socket of [near, far, listener]) closeSocket(socket);
});
