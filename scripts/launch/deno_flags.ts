/**
 * Deno's own flags among those of a command.
 *
 * @module
 */
import { CommandError, type Options } from "../terminal.ts";

/** Flags whose value may be the next argument. */
export const denoFlagsWithValue = {
  "import-map": { type: "string" },
  config: { type: "string", short: "c" },
  cert: { type: "string" },
  location: { type: "string" },
  seed: { type: "string" },
  preload: { type: "string" },
  require: { type: "string" },
  conditions: { type: "string" },
  ext: { type: "string" },
  "min-dep-age": { type: "string" },
  "node-modules-linker": { type: "string" },
  "log-level": { type: "string", short: "L" },
} as const satisfies Options;

const withValue = new Set(
  Object.entries(denoFlagsWithValue).flatMap(([name, option]) => [
    `--${name}`,
    ..."short" in option ? [`-${option.short}`] : [],
  ]),
);

/** The others; values follow "=". */
const withoutValue = new RegExp(
  [
    "--(?:allow|deny|ignore)-(?:all|read|write|import|net|env|sys|run|ffi|scripts|hrtime)",
    "--(?:permission-set|unstable(?:-[a-z-]+)?|v8-flags|env-file|check|reload|lock|frozen|frozen-lockfile|vendor|quiet)",
    "--(?:node-modules-dir|unsafely-ignore-certificate-errors|cached-only|use-env-proxy|no-prompt|no-check|no-code-cache)",
    "--(?:coverage|cpu-prof(?:-[a-z-]+)?)",
    "--no-(?:remote|npm|config|lock)",
    "-(?:[APRWINES]+|[rq])",
  ].map((part) => `^${part}(?:=.*)?$`).join("|"),
);

/** A permission, or all of them: none is given beside those that are named. */
const permission = /^(--allow-(?!scripts)|--deny-|--permission-set|-[APRWINES]+(=|$))/;

/** Take Deno's flags out of the arguments of a command. */
export function splitDenoFlags(args: readonly string[]): { flags: string[]; rest: string[] } {
  const [flags, rest]: [string[], string[]] = [[], []];
  for (let i = 0; i < args.length; i++) {
    const [name] = args[i].split("=");
    if (withValue.has(name)) {
      flags.push(args[i]);
      if (name !== args[i]) continue;
      if (i + 1 === args.length) throw new CommandError(`${name} takes a value: ${name}=VALUE`);
      flags.push(args[++i]);
    } else (withoutValue.test(args[i]) ? flags : rest).push(args[i]);
  }
  return { flags, rest };
}

/** Deno's flags with `-A`, unless they say what is permitted. */
export function withPermissions(flags: readonly string[]): string[] {
  return flags.some((flag) => permission.test(flag)) ? [...flags] : ["-A", ...flags];
}
