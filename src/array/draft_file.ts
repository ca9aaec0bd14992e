/**
 * A file that gets its name when it is complete: until then there is a draft of it.
 *
 * Where the file system has files without names, the draft is one, of which nothing is left when its writer is killed. Else
 * it is a file beside its place, which a shell removes when its writer is killed. The writer has locked it: what nobody has
 * locked was left by a machine that is no more, and goes when that place is written to the next time.
 *
 * @module
 */
import { makeUnnamedFile } from "../../ffi/unnamed_file.ts";
import { ConfigurationError } from "../errors.ts";
import { attempt } from "../attempt.ts";
import { removeAtEnd } from "./draft_guard.ts";

/** A file that is being written. Nothing is left of one that is disposed of before it was published. */
export interface Draft extends Disposable {
  /** Where it is written. */
  readonly path: string;
  /** Give it its length. */
  resize(bytes: number): void;
  /** Give it its name, in place of what has it. */
  publish(): void;
}

/** Where other ranks find a draft, and how they know that it is the same file. */
export interface DraftPlace {
  readonly path: string;
  /** What the draft begins with, until that is overwritten. */
  readonly mark: string;
}

const paths = () => globalThis.process.getBuiltinModule("node:path");

/** Where to write in the end: behind symbolic links, and never over anything but a plain file. */
export function targetOf(path: string | URL): string {
  const name = path instanceof URL ? globalThis.process.getBuiltinModule("node:url").fileURLToPath(path) : path;
  const found = ifThere(() => Deno.statSync(name));
  if (found?.isFile) {
    // A file that is protected is not to be replaced, either.
    Deno.openSync(name, { append: true }).close();
    return Deno.realPathSync(name);
  }
  if (found !== null) throw new ConfigurationError("it exists and is no plain file; take another path.");
  if (!ifThere(() => Deno.lstatSync(name))?.isSymlink) return name;
  // A link to a file that is still to be made.
  const { dirname, resolve } = paths();
  return targetOf(resolve(Deno.realPathSync(dirname(name)), Deno.readLinkSync(name)));
}

/** A draft without a name, which processes of this machine can open; null if there can be none. */
export function unnamedDraft(target: string): Draft | null {
  const unnamed = makeUnnamedFile(paths().dirname(target));
  if (unnamed === null) return null;
  using stack = new DisposableStack();
  stack.defer(unnamed.close);
  const file = stack.use(Deno.openSync(unnamed.path, { write: true }));
  lock(file);
  const publish = () => {
    if (unnamed.link(target)) return;
    // No link takes the place of a file: the draft gets another name first.
    const name = nameBeside(target);
    if (!unnamed.link(name)) throw new ConfigurationError("the complete file cannot be given a name in its folder");
    replace(target, name);
  };
  return draftOf(unnamed.path, file, publish, stack.move());
}

/** A draft beside its target. */
export function namedDraft(target: string): Draft {
  const path = nameBeside(target);
  using stack = new DisposableStack();
  const file = stack.use(Deno.openSync(path, { write: true, createNew: true }));
  stack.defer(() => attempt(() => Deno.removeSync(path)));
  lock(file);
  removeAtEnd(path);
  return draftOf(path, file, () => replace(target, path), stack.move());
}

function draftOf(path: string, file: Deno.FsFile, publish: () => void, held: DisposableStack): Draft {
  return { path, publish, resize: (bytes) => file.truncateSync(bytes), [Symbol.dispose]: () => held.dispose() };
}

/** Mark a draft, so that other ranks can tell whether they see it. */
export function markDraft({ path }: Draft): DraftPlace {
  const mark = crypto.randomUUID();
  Deno.writeTextFileSync(path, mark, { create: false });
  return { path, mark };
}

/** Whether this process sees a draft that was marked, and nothing was written to since. */
export function seesDraft({ path, mark }: DraftPlace): boolean {
  return attempt(() => {
    // On another machine the path may lead to anything.
    const { isFile, size } = Deno.statSync(path);
    return isFile && size === mark.length && Deno.readTextFileSync(path) === mark;
  }) ?? false;
}

/** Remove the drafts of a file whose writers were killed. */
export function removeAbandonedDrafts(target: string): void {
  const { basename, dirname } = paths();
  const folder = dirname(target);
  const isDraft = (name: string) =>
    name.startsWith(`${basename(target)}.`) && SUFFIX.test(name.slice(basename(target).length));
  for (const name of attempt(() => Array.from(Deno.readDirSync(folder), ({ name }) => name).filter(isDraft)) ?? []) {
    attempt(() => {
      using file = Deno.openSync(`${folder}/${name}`, { write: true });
      if (file.tryLockSync(true)) Deno.removeSync(`${folder}/${name}`);
    });
  }
}

const SUFFIX = /^\.[0-9a-f]{8}\.part$/;

function nameBeside(target: string): string {
  return `${target}.${crypto.randomUUID().slice(0, 8)}.part`;
}

/** Some file systems of clusters have no locks: what is abandoned there stays. */
function lock(file: Deno.FsFile): void {
  attempt(() => file.tryLockSync(true));
}

/** Put a file in the place of another one, whose permissions it takes. */
function replace(target: string, name: string): void {
  attempt(() => Deno.chmodSync(name, Deno.statSync(target).mode! & 0o7777));
  try {
    Deno.renameSync(name, target);
  } catch (error) {
    attempt(() => Deno.removeSync(name));
    throw error;
  }
}

function ifThere<T>(look: () => T): T | null {
  try {
    return look();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
