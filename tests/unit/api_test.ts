/** The names that users rely on: what mod.ts and internals.ts export, the methods of classes, the options of matmul. */
import { assert, assertEquals } from "@std/assert";
import * as internals from "../../internals.ts";
import * as api from "../../mod.ts";
import { EPILOG_INPUT_KEYS, MATMUL_OPTION_KEYS, RESET_OPTION_KEYS } from "../../src/linalg/matmul/options.ts";
import { EXECUTE_OPTION_KEYS } from "../../src/runtime/operation.ts";

const words = (text: string) => text.trim().split(/\s+/);

const FUNCTIONS = words(`
  initialize currentRuntime matmul redistribute loadNpy saveNpy loadNpz saveNpz allocateSymmetricMemory freeSymmetricMemory
  matrixQualifiers fromFloat32 toFloat32 inferDistribution numroc trsm trmm syrk herk syr2k her2k symm hemm geadd tradd cg solve eigh explain
  fft ifft rfft irfft allocateOperand waitAll waitAny startAll mapTasks evaluate promote
  arange broadcastTo concatenate expandDims eye fromFunction linspace reshape roll squeeze stack flip
  fromNdarray toNdarray
  axpy cumulativeSum diagonal dot kron matrixNorm outer scale trace vdot vecdot`);

const ELEMENTWISE = words(`
  abs acos add asin atan atan2 ceil clip conj cos cosh divide equal erf erfc exp expm1 floor greater greaterEqual imag isFinite isNaN
  less lessEqual log log10 log1p log2 logicalAnd logicalNot logicalOr logicalXor maximum minimum multiply negative notEqual
  positive power real round sign sin sinh sqrt square subtract tan tanh trunc where`);

/** What only tools need. */
const INTERNALS = words(`
  agree exchange environment nativePrefix openedLibraries searchFolders taskCommand findCompiler launcher findGpuDriver inspectGpus
  isHeld roomOnGpus NcclCommunicator LongWaits makePresencePage PRESENCE_VARIABLE processesInMpi toldEnds whereRanksAre
  liveAllocations allocate dtypeOf isNarrowFloat parseNpyHeader EPILOG_NAMES packQualifiers qualifiersObject nearest`);

const ERRORS = words(`
  DistmathError CollectiveError ConfigurationError ShapeError DistributionError DTypeError StateError NativeError MpiError
  LibraryNotFoundError`);

/** Methods and accessors; `static` before those of the class itself. */
const METHODS: Record<string, string> = {
  Runtime: "record versions collect finalize print",
  Recording: "collectives exchanges stop timeline",
  Timeline: "toSVG toChromeTrace",
  Communicator: `static world static self
    barrier broadcast reduce allReduce gather gatherV scatter scatterV allGather allGatherV allToAll allToAllV reduceScatter
    scan exclusiveScan send receive sendReceive isend ireceive ibarrier iallGatherV
    ibroadcast ireduce iallReduce igather iscatter iallGather iallToAll probe probeNow createCartesian coordinates shift neighborAllGather neighborAllToAll split splitShared duplicate
    free abort broadcastObject gatherObject scatterObject allGatherObject allToAllObject reduceObject allReduceObject
    scanObject exclusiveScanObject sendObject receiveObject sendReceiveObject isendObject ireceiveObject
    print deal ringObject reduceByKey`,
  DistributedArray: `static zeros static full static random static generate static fromLocal static scatter
    local gather allGather map zip sum prod mean var std min max argmin argmax all
    any norm format show at set assign entries maxAbsDifference slice redistribute transpose copy to free`,
  LocalArray: "format toString address byteLength view toTypedArray toNumbers set",
  SymmetricArray: "peerAddress",
  Matmul:
    `plan autotune execute resetOperands resetOperandsUnchecked releaseOperands free algorithm communication auxiliary explain
    timeline`,
  FFT:
    `plan autotune execute resetOperands resetOperandsUnchecked releaseOperands free algorithm communication explain`,
  Redistribution: "autotune execute free communication explain",
  CommunicationMatrix: "total sent received toText toSVG",
  Slab: "static X static Y static Z",
  Box: "static fromLocal",
  BlockCyclic:
    "bind to equals toString localShape owner toLocal toGlobal ranges toSVG toText coincidesWith transpose slice",
  BlockNonCyclic: "bind",
  MatrixQualifiers: "",
  ProcessGrid: "",
};

Deno.test("mod.ts exports the functions and errors by their names", () => {
  for (const name of [...FUNCTIONS, ...ELEMENTWISE]) assertEquals(typeof Reflect.get(api, name), "function", name);
  for (const name of ERRORS) assert(Reflect.get(api, name)?.prototype instanceof Error, name);
  assert(api.Replicated instanceof api.Distribution);
});

Deno.test("every function of mod.ts has an example", () => {
  const entry = new URL("../../mod.ts", import.meta.url).href;
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["doc", "--json", entry] }).outputSync();
  const { symbols } = JSON.parse(new TextDecoder().decode(stdout)).nodes[entry];
  interface Declaration {
    kind: string;
    jsDoc?: { tags?: { kind: string }[] };
  }
  const isFunction = ({ kind }: Declaration) => kind === "function";
  const hasExample = ({ jsDoc }: Declaration) => jsDoc?.tags?.some(({ kind }) => kind === "example") ?? false;
  const functions = (symbols as { name: string; declarations: Declaration[] }[])
    .filter(({ declarations }) => declarations.some(isFunction));
  assert(functions.length > 50);
  const without = functions.filter(({ declarations }) => !declarations.some(hasExample));
  assertEquals(without.map(({ name }) => name), []);
});

Deno.test("internals.ts exports what only tools need, and mod.ts none of it", () => {
  assertEquals(Object.keys(internals).toSorted(), INTERNALS.toSorted());
  assertEquals(INTERNALS.filter((name) => name in api), []);
});

Deno.test("elementwise functions are methods of arrays, and the documentation names them", () => {
  const text = Deno.readTextFileSync(new URL("../../src/array/distributed_array.ts", import.meta.url));
  const [, listed] = text.replaceAll("\n *", "").match(/\{@linkcode BinaryMethods\}: ([\w, ]+)/)!;
  assertEquals(words(listed.replaceAll(",", " ")).concat("where", "clip").sort(), ELEMENTWISE.toSorted());
  for (const name of ELEMENTWISE) {
    assertEquals(typeof Reflect.get(api.DistributedArray.prototype, name), "function", name);
  }
});

Deno.test("the classes have the methods", () => {
  for (const [className, names] of Object.entries(METHODS)) {
    const theClass = Reflect.get(api, className);
    assertEquals(typeof theClass, "function", className);
    for (const name of words(names.replaceAll("static ", "static:")).filter((name) => name !== "")) {
      const [owner, member] = name.startsWith("static:") ? [theClass, name.slice(7)] : [theClass.prototype, name];
      assert(member in owner, `${className}: ${name}`);
    }
  }
  for (const name of ["Runtime", "Communicator", "DistributedArray", "Matmul", "SymmetricArray"]) {
    assert(Symbol.dispose in Reflect.get(api, name).prototype, `using ${name}`);
  }
});

/** Members that only the constructor makes. */
const FIELDS: Record<string, string[]> = {
  CommunicatorHandle: ["rank", "size"],
  BaseArray: ["runtime", "shape", "dtype", "distribution", "order", "memory"],
};

for (
  const [theClass, file] of [
    [api.Communicator, "src/mpi/communicator.ts"],
    [api.DistributedArray, "src/array/distributed_array.ts"],
  ] as const
) {
  Deno.test(`the documentation of ${theClass.name} names the members of its chapters`, () => {
    const text = Deno.readTextFileSync(new URL(`../../${file}`, import.meta.url)).replaceAll("\n *", "");
    for (let chapter = Object.getPrototypeOf(theClass); chapter.name !== ""; chapter = Object.getPrototypeOf(chapter)) {
      const [, named] = text.match(`\\{@linkcode ${chapter.name}\\}[^:]*:([\\w, ]+)`) ?? [];
      assert(named !== undefined, `${chapter.name} is named`);
      const isInternal = (name: string) => ["constructor", "owner", "hostPart", "besides"].includes(name);
      const members = Object.getOwnPropertyNames(chapter.prototype).filter((name) => !isInternal(name));
      members.push(...FIELDS[chapter.name] ?? []);
      assertEquals(named.split(",").map((name) => name.trim()).sort(), members.sort(), chapter.name);
    }
  });
}

Deno.test("matmul has the options", () => {
  const expected = words(`
    allowMulticast algorithm alpha auxAmax auxType beta blockScaling blocking c communicationSmCount communicationType
    computeType distribution engine epilog epilogInputs inplace logger order qualifiers quantizationScales resultAmax
    resultType scaleType stream`);
  assertEquals(MATMUL_OPTION_KEYS.toSorted(), expected.toSorted());
  assertEquals(EXECUTE_OPTION_KEYS, ["stream"]);
  assertEquals(RESET_OPTION_KEYS, ["a", "b", "c", "alpha", "beta", "quantizationScales", "epilogInputs"]);
  assertEquals(EPILOG_INPUT_KEYS, ["bias", "columnBias", "reluAux", "geluAux", "auxQuantizationScale"]);
});

Deno.test("what is exported is exported under the name that its signatures show", () => {
  const root = new URL("../../", import.meta.url);
  for (const folder of ["dtype", "mpi", "gpu", "runtime", "memory", "distribution", "array", "linalg"]) {
    const text = Deno.readTextFileSync(new URL(`src/${folder}/mod.ts`, root));
    assertEquals([...text.matchAll(/\w+ as \w+/g)].map(([name]) => name), [], folder);
  }
});
