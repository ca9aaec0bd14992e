/**
 * `native`: install, list or remove native libraries.
 *
 * @module
 */
import { installCpu, pinnedPackages, readRecord, removeCpu, setFolder } from "./native/install.ts";
import { CommandError, formatBytes, parseCommand } from "./terminal.ts";

const help = `Install, list or remove native libraries.

Usage: native install [cpu]   Open MPI and MKL (BLAS, ScaLAPACK) as pinned, hash-checked wheels, without root
       native list            what is installed, and where
       native remove          remove it

They lie in the folder that DISTMATH_NATIVE names; when it is unset, in distmath/native in the user's cache folder.
Where root is at hand, a distribution's packages serve as well; Debian's:
apt-get install openmpi-bin libscalapack-openmpi2.2 libopenblas0-pthread

An install needs Python 3.9 or newer with pip. PIP_INDEX_URL, PIP_FIND_LINKS and pip's other settings count as usual.
`;

/** The command. */
export async function native(args: string[]): Promise<number> {
  const { values, positionals: [action, set = "cpu", ...more] } = parseCommand(args, {
    help: { type: "boolean", short: "h", default: false },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  if (more.length > 0) throw new CommandError(`native takes one action, not "${args.join(" ")}"`);
  if (set === "cuda") {
    throw new CommandError("there is no cuda set in this version: it comes with the GPU engines");
  }
  if (set !== "cpu") throw new CommandError(`there is no set "${set}" of native libraries; there is cpu`);
  switch (action) {
    case "install":
      if (!await installCpu()) console.log(`cpu is installed already: ${setFolder()}`);
      return 0;
    case "list":
      list();
      return 0;
    case "remove":
      console.log(removeCpu() ? `removed ${setFolder()}` : "nothing is installed");
      return 0;
    default:
      throw new CommandError(`native takes install, list or remove${action ? `, not "${action}"` : ""}`);
  }
}

function list(): void {
  const record = readRecord(setFolder());
  if (record) console.log(`cpu  ${record.packages.join(", ")}  ${formatBytes(record.bytes)}  ${setFolder()}`);
  else console.log(`cpu  not installed (${pinnedPackages().join(", ")}); to install it: deno task native install cpu`);
}
