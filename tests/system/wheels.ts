/** Small Python wheels, made here, for installs without an index. */
import { createHash } from "node:crypto";

/** The contents of a wheel: texts by their paths. */
export type WheelFiles = Record<string, string>;

/** A wheel on the disk. */
export interface LocalWheel {
  name: string;
  version: string;
  sha256: string;
}

/** Writes the wheel that the first argument describes; pip needs Python, so that it is there. */
const program = `
import base64, hashlib, json, sys, zipfile
path, info, files = json.loads(sys.argv[1])
digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
lines = [f"{name},sha256={digest(text)},{len(text.encode())}" for name, text in files.items()]
files[f"{info}/RECORD"] = "\\n".join([*lines, f"{info}/RECORD,,", ""])
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
`;

/** Write a wheel for Linux x86-64 into a folder, with pip's name for it. */
export async function writeWheel(
  folder: string,
  name: string,
  version: string,
  files: WheelFiles,
): Promise<LocalWheel> {
  Deno.mkdirSync(folder, { recursive: true });
  const stem = `${name.replaceAll("-", "_")}-${version}`;
  const tag = "py3-none-manylinux2014_x86_64";
  const path = `${folder}/${stem}-${tag}.whl`;
  const info = `${stem}.dist-info`;
  const all = {
    ...files,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`,
    [`${info}/WHEEL`]: `Wheel-Version: 1.0\nGenerator: distmath\nRoot-Is-Purelib: true\nTag: ${tag}\n`,
  };
  const args = ["-c", program, JSON.stringify([path, info, all])];
  const { success, stderr } = await new Deno.Command("python3", { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return { name, version, sha256: createHash("sha256").update(Deno.readFileSync(path)).digest("hex") };
}

/** The lines of a requirements file for wheels. */
export function pinsOf(wheels: readonly LocalWheel[]): string {
  return wheels.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}\n`).join("");
}
