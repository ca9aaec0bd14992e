/**
 * How the ranks of a job without MPI find each other: one on the machine of MASTER_ADDR, whichever is first to listen
 * there, waits for all others, and is their hub from then on. Each of them has two connections to it: one for what they
 * exchange, one by which the end of a process is noticed.
 *
 * @module
 */
import { ConfigurationError, DistmathError } from "../errors.ts";
import { writeImmediately } from "../process.ts";
import { FrameReader, sendFrame } from "./frames.ts";
import type { Place } from "./place.ts";
import {
  acceptAt,
  type Address,
  addressOfHost,
  closeSocket,
  connectTo,
  everyAddress,
  hostName,
  isLoopback,
  isOwnAddress,
  listenAt,
  POLLIN,
  waitFor,
  withPort,
} from "./sockets.ts";

/** Ranks that are joined. */
export interface Star {
  rank: number;
  size: number;
  /** The rank that all others are connected to. */
  hub: number;
  /** The sockets that values are exchanged by: the hub's by rank, another rank's own at the hub's place; -1 elsewhere. */
  links: readonly number[];
  /** The sockets by which the end of a process is noticed, likewise. */
  watches: readonly number[];
  /** The machine of each rank. */
  machines: readonly string[];
  /** What tells this job from all others on these machines. */
  name: string;
}

const CHANNELS = ["link", "watch"] as const;

/** What a rank tells the hub on each of its connections. */
interface Hello {
  rank: number;
  size: number;
  job: string;
  machine: string;
  channel: (typeof CHANNELS)[number];
}

/** What the hub answers: at once that it has heard it, or why not; in the end what all ranks know. */
interface Answer {
  refusal?: string;
  welcome?: { hub: number; machines: string[]; name: string };
}

/** Who has connected to the hub: a rank once it has told so. */
interface Guest {
  reader: FrameReader;
  hello: Hello | null;
}

const PAUSE_MILLISECONDS = 50;
const NOTICE_MILLISECONDS = 10_000;
const CONNECT_MILLISECONDS = 1000;
/** How long what listens at the port may take to show that it is a rank. */
const ANSWER_MILLISECONDS = 10_000;

const never = new Int32Array(new SharedArrayBuffer(4));
const pause = () => void Atomics.wait(never, 0, 0, PAUSE_MILLISECONDS);

const whereOf = ({ host, port, portSource }: Place) => `${host}:${port} (MASTER_ADDR, ${portSource})`;

const nameRanks = (ranks: readonly number[]) => `${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}`;

/**
 * Join the other ranks. Collective.
 *
 * @throws {ConfigurationError} if they do not come together, on each that has.
 */
export function join(place: Place): Star {
  const { rank, size } = place;
  const machine = hostName();
  if (size === 1) return { rank, size, hub: 0, links: [-1], watches: [-1], machines: [machine], name: "alone" };
  const address = withPort(addressOfHost(place.host, "MASTER_ADDR"), place.port);
  const mayHost = isOwnAddress(address);
  // Debian has the machine's own name mean a loopback address, which other machines know by another one.
  const isLocal = place.host === "localhost" || /^127\.|^::1$/.test(place.host);
  const own = isLoopback(address) && isLocal ? address : withPort(everyAddress(address), place.port);
  const begun = performance.now();
  let [isTold, strangeSince] = [false, Infinity];
  while (true) {
    const listener = mayHost ? listenAt(own) : null;
    if (listener !== null) return host(place, machine, listener);
    const link = connectTo(address, CONNECT_MILLISECONDS);
    const found = link === null ? null : visit(place, machine, address, link);
    if (found !== null && found !== "strange") return found;
    const now = performance.now();
    strangeSince = found === null ? Infinity : Math.min(strangeSince, now);
    if (now - strangeSince > ANSWER_MILLISECONDS / 2) throw refuseTaken(place);
    if (now - begun > place.seconds * 1000) throw unreachable(place, mayHost);
    if (!isTold && now - begun > NOTICE_MILLISECONDS) {
      isTold = true;
      writeImmediately(`distmath: rank ${rank} of ${size} finds nobody at ${whereOf(place)} yet.`);
    }
    pause();
  }
}

function unreachable(place: Place, mayHost: boolean): ConfigurationError {
  const reason = mayHost
    ? "This is its machine, but the port cannot be listened at: it is below 1024, or something holds it. Set another one"
    : "It has to be the address of a machine of the job, with a rank on it that has started, and the port has to be " +
      "open between the machines";
  return new ConfigurationError(
    `The ranks cannot join: rank ${place.rank} of ${place.size} reached nobody at ${
      whereOf(place)
    } within ${place.seconds} s ` +
      `(DISTMATH_JOIN_SECONDS). ${reason}: DISTMATH_PORT, else MASTER_PORT, on all ranks.`,
  );
}

function refuseTaken(place: Place): ConfigurationError {
  return new ConfigurationError(
    `The ranks cannot join: what answers at ${
      whereOf(place)
    } is no rank of distmath: another program has the port. Set ` +
      "DISTMATH_PORT to a free one on all ranks.",
  );
}

// ---- the hub --------------------------------------------------------------------------------------------------------

function host(place: Place, machine: string, listener: number): Star {
  const { rank, size } = place;
  const guests: Guest[] = [];
  const refused: string[] = [];
  const begun = performance.now();
  let isTold = false;
  try {
    while (true) {
      const missing = missingRanks(place, guests);
      if (missing.length === 0) break;
      const waited = performance.now() - begun;
      if (waited > place.seconds * 1000) throw incomplete(place, guests, missing, refused);
      if (!isTold && waited > NOTICE_MILLISECONDS) {
        isTold = true;
        writeImmediately(`distmath: rank ${rank} of ${size} waits at ${whereOf(place)} for ${nameRanks(missing)}.`);
      }
      const ready = waitFor([listener, ...guests.map(({ reader }) => reader.socket)], POLLIN, PAUSE_MILLISECONDS);
      const present = guests.filter((_, i) => ready[i + 1]);
      if (ready[0]) {
        const socket = acceptAt(listener);
        if (socket !== null) guests.push({ reader: new FrameReader(socket), hello: null });
      }
      for (const guest of present) {
        const refusal = hear(place, guests, guest);
        if (refusal === null) continue;
        if (refusal !== "") refused.push(refusal);
        guests.splice(guests.indexOf(guest), 1);
        closeSocket(guest.reader.socket);
      }
    }
  } finally {
    closeSocket(listener);
  }
  const socketOf = (wanted: number, channel: Hello["channel"]) =>
    guests.find(({ hello }) => hello?.rank === wanted && hello.channel === channel)?.reader.socket ?? -1;
  const machines = Array.from(
    { length: size },
    (_, wanted) => guests.find(({ hello }) => hello?.rank === wanted)?.hello?.machine ?? machine,
  );
  const name = `${Deno.pid}.${place.port}.${Date.now().toString(36)}`;
  const links = machines.map((_, wanted) => socketOf(wanted, "link"));
  const watches = machines.map((_, wanted) => socketOf(wanted, "watch"));
  for (const { reader } of guests.filter(({ hello }) => hello === null)) closeSocket(reader.socket);
  const answer: Answer = { welcome: { hub: rank, machines, name } };
  for (const link of links) if (link >= 0) sendFrame(link, answer);
  return { rank, size, hub: rank, links, watches, machines, name };
}

/** The ranks that lack one of their connections. */
function missingRanks({ rank, size }: Place, guests: readonly Guest[]): number[] {
  const counts = new Int32Array(size);
  counts[rank] = CHANNELS.length;
  for (const { hello } of guests) if (hello !== null) counts[hello.rank]++;
  return [...counts.keys()].filter((wanted) => counts[wanted] < CHANNELS.length);
}

/** Listen to a guest; not `null` if it goes, with what was wrong with it, if something was. */
function hear(place: Place, guests: readonly Guest[], guest: Guest): string | null {
  const frame = guest.reader.read();
  if (frame === "nothing") return null;
  if (frame === "strange") return "something that is no rank connected";
  // A rank says no more than one thing before it is welcome.
  if (frame === "end" || guest.hello !== null) return "";
  const hello = frame.value as Hello;
  const refusal = refusalOf(place, guests, hello);
  if (hello.channel === "link") {
    sendFrame(guest.reader.socket, refusal === null ? {} : { refusal } satisfies Answer);
  }
  if (refusal === null) guest.hello = hello;
  return refusal;
}

function refusalOf(
  place: Place,
  guests: readonly Guest[],
  { rank, size, job, machine, channel }: Hello,
): string | null {
  if (!Number.isInteger(rank) || rank < 0 || rank >= size) return `${rank} is no rank of ${size}.`;
  if (size !== place.size || job !== place.job) {
    const other = (size: number, job: string) => `${size} ranks${job === "" ? "" : ` of torchrun's ${job}`}`;
    return `rank ${rank} on ${machine} belongs to ${other(size, job)}, but at ${whereOf(place)} ` +
      `${other(place.size, place.job)} meet. Give each job a port of its own, and its ranks the same WORLD_SIZE.`;
  }
  const isThere = rank === place.rank ||
    guests.some(({ hello }) => hello?.rank === rank && hello.channel === channel);
  if (!isThere) return null;
  return `rank ${rank}, started once more on ${machine}, is at ${whereOf(place)} already. Start each RANK from 0 to ` +
    `${size - 1} once, and give each job a port of its own.`;
}

/** Not all ranks have come: those that have learn it, too. */
function incomplete(
  place: Place,
  guests: readonly Guest[],
  missing: readonly number[],
  refused: readonly string[],
): ConfigurationError {
  const others = refused.length === 0 ? "" : ` Refused: ${[...new Set(refused)].join("; ")}`;
  const refusal =
    `${nameRanks(missing)} of ${place.size} did not come to ${whereOf(place)} within ${place.seconds} s ` +
    `(DISTMATH_JOIN_SECONDS). Start each RANK from 0 to ${place.size - 1} once, with the same MASTER_ADDR and ` +
    `MASTER_PORT, and have all of them call initialize().${others}`;
  for (const { reader, hello } of guests) {
    if (hello?.channel === "link") sendFrame(reader.socket, { refusal } satisfies Answer);
    closeSocket(reader.socket);
  }
  return new ConfigurationError(`The ranks cannot join: ${refusal}`, { ranks: missing });
}

// ---- the others -----------------------------------------------------------------------------------------------------

/** Go to the hub by a connection that stands: joined to all, or to find that there is no rank on the other side. */
function visit(place: Place, machine: string, address: Address, link: number): Star | "strange" {
  const { rank, size, job } = place;
  const reader = new FrameReader(link);
  const introduce = (socket: number, channel: Hello["channel"]) =>
    sendFrame(socket, { rank, size, job, machine, channel } satisfies Hello);
  const first = introduce(link, "link") ? answerOf(reader, ANSWER_MILLISECONDS) : "end";
  if (typeof first === "string") {
    closeSocket(link);
    // A hub that has just welcomed all of an earlier job is about to give the port back.
    if (first === "end") return "strange";
    throw refuseTaken(place);
  }
  const watch = first.refusal === undefined ? connectTo(address, ANSWER_MILLISECONDS) : null;
  const isIntroduced = watch !== null && introduce(watch, "watch");
  const answer = isIntroduced ? answerOf(reader, -1) : first.refusal === undefined ? "end" : first;
  if (typeof answer !== "string" && answer.welcome !== undefined) {
    const { hub, machines, name } = answer.welcome;
    const at = (socket: number) => machines.map((_, wanted) => wanted === hub ? socket : -1);
    return { rank, size, hub, links: at(link), watches: at(watch!), machines, name };
  }
  closeSocket(link);
  if (watch !== null) closeSocket(watch);
  if (typeof answer !== "string") throw new ConfigurationError(`The ranks cannot join: ${answer.refusal}`);
  throw new DistmathError(
    `The ranks cannot join: the rank at ${
      whereOf(place)
    }, where the others meet, ended before all ${size} ranks had come.`,
  );
}

/** What the hub answers, within so many milliseconds; without a limit if -1: the hub has one. */
function answerOf(reader: FrameReader, milliseconds: number): Answer | "end" | "strange" | "silent" {
  const begun = performance.now();
  while (true) {
    waitFor([reader.socket], POLLIN, milliseconds < 0 ? -1 : PAUSE_MILLISECONDS);
    const frame = reader.read();
    if (frame === "end" || frame === "strange") return frame;
    if (frame !== "nothing") return frame.value as Answer;
    if (milliseconds >= 0 && performance.now() - begun > milliseconds) return "silent";
  }
}
