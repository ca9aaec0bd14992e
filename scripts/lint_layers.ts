/**
 * A lint plugin that keeps the house in order: imports point only downward, engines do not know each other, the published
 * part has no dependency but `node:`, and native libraries are opened only in `ffi/`.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

/** The layers from the bottom up. A file may import from its own layer and from those below it. */
const layers = [
  "ffi",
  "src/errors.ts",
  "src/options.ts",
  "src/attempt.ts",
  "src/stopwatch.ts",
  "src/environment.ts",
  "src/dtype",
  "src/mpi",
  "src/gpu",
  "src/runtime",
  "src/memory",
  "src/distribution",
  "src/array",
  "src/blas",
  "src/overlap",
  "src/linalg",
  "src/fft",
  "src/files.ts",
  "src/testing",
  "mod.ts",
  "internals.ts",
  "scripts",
] as const;

/** Layers side by side: neither may import the other. */
const strangers: readonly (readonly [string, string])[] = [["src/mpi", "src/gpu"], ["src/fft", "src/linalg"]];

/** Folders of `engines/` that are no engine's: what several share. */
const sharedByEngines = ["host", "staged"];

/** What `scripts/` may import of the library: it has to run from a URL. */
const openToScripts = ["mod.ts", "internals.ts", "scripts"];

/** Whether every script that imports `mod.ts` loads the files of a layer. */
function isLoadedByAll(layer: number): boolean {
  return layer <= layers.indexOf("mod.ts") && layers[layer] !== "src/testing";
}

function belongsTo(path: string, layer: string): boolean {
  return path === layer || path.startsWith(`${layer}/`);
}

function layerOf(path: string): number {
  return layers.findIndex((layer) => belongsTo(path, layer));
}

/** The folder of the engine that a file is a part of; `undefined` if it is no engine's. */
function engineOf(path: string): string | undefined {
  const [folder, name] = path.match(/^src\/\w+\/engines\/(\w+)\//) ?? [];
  return sharedByEngines.includes(name) ? undefined : folder;
}

/** The path of a file inside the repository, or `null` if the file lies outside it. */
function insideRepository(file: string): string | null {
  const root = fileURLToPath(new URL("../", import.meta.url));
  const path = file.startsWith("file:") ? fileURLToPath(file) : file;
  return path.startsWith(root) ? path.slice(root.length) : null;
}

/**
 * Why `from` may not import `specifier`, or `null` if it may. `from` is a path inside the repository.
 */
function importFault(from: string, specifier: string): string | null {
  const fromLayer = layerOf(from);
  if (fromLayer < 0) return null;
  if (specifier.startsWith("node:")) {
    if (!isLoadedByAll(fromLayer)) return null;
    return `Every start would load ${specifier}, for 4 to 15 ms: take it where it is used, by ` +
      `globalThis.process.getBuiltinModule("${specifier}").`;
  }
  if (!/^\.{1,2}\//.test(specifier)) {
    return `The published part imports only relative files and node: modules, not "${specifier}".`;
  }
  const to = new URL(specifier, `file:///root/${from}`).pathname.replace(/^\/root\//, "");
  const toLayer = layerOf(to);
  if (toLayer < 0) return `The published part does not import "${to}", which lies outside it.`;
  const [here, there] = [layers[fromLayer], layers[toLayer]];
  if (here === "scripts" && !openToScripts.includes(there)) {
    return `scripts/ imports mod.ts, internals.ts, node: and scripts/ only, not "${to}".`;
  }
  if (toLayer > fromLayer) return `${here} may not import ${there}: imports point only downward.`;
  if (strangers.some(([one, other]) => here === other && there === one || here === one && there === other)) {
    return `${here} and ${there} lie side by side: neither imports the other.`;
  }
  const engine = engineOf(to);
  if (engine !== undefined && engineOf(from) !== engine && from !== engine.replace(/\w+\/$/, "all.ts")) {
    return `${engine} is an engine's own: all.ts imports it, and no other engine. What several need lies beside it.`;
  }
  return null;
}

/** Looks at all that a file imports, also types and what it exports again. */
export function importVisitor(found: (specifier: string, node: Deno.lint.Node) => void): Deno.lint.LintVisitor {
  const look = (node: Deno.lint.Node, source: Deno.lint.Node | null): void => {
    if (source?.type === "Literal" && typeof source.value === "string") found(source.value, node);
  };
  return {
    ImportDeclaration: (node) => look(node, node.source),
    ExportNamedDeclaration: (node) => look(node, node.source),
    ExportAllDeclaration: (node) => look(node, node.source),
    ImportExpression: (node) => look(node, node.source),
    TSImportType: (node) => look(node, node.argument.type === "TSLiteralType" ? node.argument.literal : node.argument),
  };
}

/** The rules, for the `lint.plugins` list of deno.json. */
const plugin: Deno.lint.Plugin = {
  name: "distmath",
  rules: {
    layers: {
      create(context) {
        const from = insideRepository(context.filename);
        if (from === null) return {};
        return importVisitor((specifier, node) => {
          const message = importFault(from, specifier);
          if (message !== null) context.report({ node, message });
        });
      },
    },
    "dlopen-in-ffi": {
      create(context) {
        const from = insideRepository(context.filename);
        if (from === null || layerOf(from) < 0 || belongsTo(from, "ffi")) return {};
        return {
          'MemberExpression[object.name="Deno"][property.name="dlopen"]'(node: Deno.lint.MemberExpression) {
            context.report({ node, message: "Native libraries are opened only in ffi/." });
          },
        };
      },
    },
  },
};

export default plugin;
