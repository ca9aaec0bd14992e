/**
 * What ranks tell each other before they are joined: values as JSON behind a mark, by which a stranger is known.
 *
 * @module
 */
import { receiveSome, sendAll } from "./sockets.ts";

/** Changes with whatever ranks tell each other, so that releases that do not fit refuse each other. */
const MARK = new TextEncoder().encode("distmat2");
const HEAD_BYTES = MARK.length + 4;
const MOST_BYTES = 2 ** 24;

/** Send a value; whether the other side was still there. */
export function sendFrame(socket: number, value: unknown): boolean {
  const text = new TextEncoder().encode(JSON.stringify(value));
  const frame = new Uint8Array(HEAD_BYTES + text.length);
  frame.set(MARK);
  new DataView(frame.buffer).setUint32(MARK.length, text.length);
  frame.set(text, HEAD_BYTES);
  return sendAll(socket, frame);
}

/** A value that came; nothing yet; the end of the connection; or what no rank has sent. */
export type Frame = { value: unknown } | "nothing" | "end" | "strange";

/** Reads the values that come on a connection, without waiting. */
export class FrameReader {
  readonly socket: number;
  #bytes = new Uint8Array(0);

  constructor(socket: number) {
    this.socket = socket;
  }

  /** The next value, as far as it is there. */
  read(): Frame {
    const room = new Uint8Array(65536);
    const count = receiveSome(this.socket, room);
    if (count > 0) {
      const bytes = new Uint8Array(this.#bytes.length + count);
      bytes.set(this.#bytes);
      bytes.set(room.subarray(0, count), this.#bytes.length);
      this.#bytes = bytes;
    }
    const frame = this.#take();
    return frame === "nothing" && count < 0 ? "end" : frame;
  }

  #take(): Frame {
    const bytes = this.#bytes;
    if (MARK.some((byte, i) => i < bytes.length && bytes[i] !== byte)) return "strange";
    if (bytes.length < HEAD_BYTES) return "nothing";
    const length = new DataView(bytes.buffer).getUint32(MARK.length);
    if (length > MOST_BYTES) return "strange";
    if (bytes.length < HEAD_BYTES + length) return "nothing";
    this.#bytes = bytes.slice(HEAD_BYTES + length);
    try {
      const value = JSON.parse(new TextDecoder().decode(bytes.subarray(HEAD_BYTES, HEAD_BYTES + length)));
      return typeof value === "object" && value !== null ? { value } : "strange";
    } catch {
      return "strange";
    }
  }
}
