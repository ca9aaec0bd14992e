/**
 * The symbols that a shared library exports, read from its ELF file (64 bits, little endian).
 *
 * @module
 */

const DYNAMIC_SYMBOLS = 11;
const SYMBOL_BYTES = 24;

interface Section {
  type: number;
  offset: number;
  size: number;
  link: number;
}

/** The names of all symbols that a library defines for others. */
export function exportedSymbols(path: string): Set<string> {
  using file = Deno.openSync(path);
  const read = (offset: number, size: number): DataView => {
    const bytes = new Uint8Array(size);
    file.seekSync(offset, Deno.SeekMode.Start);
    for (let done = 0; done < size;) {
      const count = file.readSync(bytes.subarray(done));
      if (count === null) throw new Error(`${path} ends too early to be an ELF file.`);
      done += count;
    }
    return new DataView(bytes.buffer);
  };
  const header = read(0, 64);
  if (header.getUint32(0) !== 0x7f454c46) throw new Error(`${path} is not an ELF file.`);
  const sections = readSections(read, header);
  const symbolSection = sections.find(({ type }) => type === DYNAMIC_SYMBOLS);
  if (!symbolSection) return new Set();
  const symbols = read(symbolSection.offset, symbolSection.size);
  const stringSection = sections[symbolSection.link];
  const strings = new Uint8Array(read(stringSection.offset, stringSection.size).buffer);
  const names = new Set<string>();
  for (let at = 0; at < symbols.byteLength; at += SYMBOL_BYTES) {
    const isDefined = symbols.getUint16(at + 6, true) !== 0;
    const start = symbols.getUint32(at, true);
    if (isDefined) names.add(new TextDecoder().decode(strings.subarray(start, strings.indexOf(0, start))));
  }
  return names;
}

function readSections(read: (offset: number, size: number) => DataView, header: DataView): Section[] {
  const [bytes, count] = [header.getUint16(58, true), header.getUint16(60, true)];
  const table = read(Number(header.getBigUint64(40, true)), bytes * count);
  return Array.from({ length: count }, (_, index) => {
    const at = index * bytes;
    return {
      type: table.getUint32(at + 4, true),
      offset: Number(table.getBigUint64(at + 24, true)),
      size: Number(table.getBigUint64(at + 32, true)),
      link: table.getUint32(at + 40, true),
    };
  });
}
