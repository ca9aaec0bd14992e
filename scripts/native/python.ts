/**
 * Python's pip, which brings the wheels: finding it, or saying how to get it.
 *
 * @module
 */
import { CommandError } from "../terminal.ts";

/** The oldest pip that knows the tags of the pinned wheels. */
const oldestPip = [20, 3];

/** The package line of a distribution that brings Python and pip, by its ID or ID_LIKE in os-release. */
const packageLines: readonly [ids: RegExp, line: string][] = [
  [/\b(debian|ubuntu)\b/, "apt-get install python3 python3-pip"],
  [/\b(fedora|rhel|centos)\b/, "dnf install python3 python3-pip"],
  [/\b(suse|opensuse|sles)\b/, "zypper install python3 python3-pip"],
  [/\barch\b/, "pacman -S python python-pip"],
];

/**
 * The command that installs Python with pip, going by the text of `/etc/os-release`.
 */
export function pythonPackageLine(osRelease: string): string {
  const ids = [...osRelease.matchAll(/^ID(?:_LIKE)?=(.*)$/gm)].map(([, id]) => id).join(" ");
  const found = packageLines.find(([pattern]) => pattern.test(ids));
  return found ? found[1] : "install Python 3.9 or newer with pip by the means of your distribution";
}

function osRelease(): string {
  try {
    return Deno.readTextFileSync("/etc/os-release");
  } catch {
    return "";
  }
}

function isOld([major, minor]: number[]): boolean {
  return major < oldestPip[0] || major === oldestPip[0] && minor < oldestPip[1];
}

/**
 * The Python whose pip can install the wheels.
 *
 * @throws {CommandError} with the distribution's package line when there is no Python, no pip or too old a pip.
 */
export async function findPip(): Promise<string> {
  const reasons: string[] = [];
  for (const python of ["python3", "python"]) {
    try {
      const { success, stdout, stderr } = await new Deno.Command(python, { args: ["-m", "pip", "--version"] }).output();
      const text = new TextDecoder().decode(success ? stdout : stderr).trim();
      const version = /^pip (\d+)\.(\d+)/.exec(text)?.slice(1).map(Number);
      if (!version) reasons.push(`${python} has no pip`);
      else if (isOld(version)) reasons.push(`${text} is too old (${oldestPip.join(".")} or newer is needed)`);
      else return python;
    } catch (error) {
      reasons.push(error instanceof Deno.errors.NotFound ? `there is no ${python}` : `${python}: ${error}`);
    }
  }
  throw new CommandError(
    `native install needs Python 3.9 or newer with pip: ${reasons.join(", ")}. To get it: ${
      pythonPackageLine(osRelease())
    }`,
    1,
  );
}
