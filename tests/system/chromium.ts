/** A headless Chromium, driven through its DevTools protocol: what a page looks like once it is laid out. */
import { slowdown } from "../mpi_installations.ts";

const PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** Where Chromium is; null if there is none. */
export const chromium: string | null =
  (Deno.env.get("PATH") ?? "").split(":").flatMap((folder) => PROGRAMS.map((name) => `${folder}/${name}`)).find(
    (path) => {
      try {
        return Deno.statSync(path).isFile;
      } catch {
        return false;
      }
    },
  ) ?? null;

interface Answer {
  readonly id?: number;
  readonly error?: { readonly message: string };
  readonly result?: Record<string, unknown>;
}

/** What has not been answered by then never will be, as after a crash of a page. */
const answerMilliseconds = () => 60_000 * slowdown();

/** Call `late` when an answer is overdue, until disposed of. */
function deadline(late: () => void): Disposable {
  const timer = setTimeout(late, answerMilliseconds());
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

/** A browser without windows. */
export class Browser implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #folder: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<Record<string, unknown>>>();
  #sent = 0;

  private constructor(process: Deno.ChildProcess, folder: string, socket: WebSocket) {
    this.#process = process;
    this.#folder = folder;
    this.#socket = socket;
    socket.onclose = () => this.#waiting.values().forEach(({ reject }) => reject(new Error("Chromium has ended")));
    socket.onmessage = ({ data }) => {
      const { id, error, result = {} } = JSON.parse(data) as Answer;
      const asked = this.#waiting.get(id ?? -1);
      if (error) asked?.reject(new Error(error.message));
      else asked?.resolve(result);
      this.#waiting.delete(id ?? -1);
    };
  }

  /** Start one. */
  static async start(program: string): Promise<Browser> {
    const folder = Deno.makeTempDirSync({ prefix: "distmath-chromium-" });
    const process = new Deno.Command(program, {
      // Root has no sandbox; containers often have a small /dev/shm.
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"].concat(
        "--remote-debugging-port=0",
        `--user-data-dir=${folder}`,
        "about:blank",
      ),
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    let said = "";
    using _deadline = deadline(() => process.kill("SIGKILL"));
    for await (const text of process.stderr.pipeThrough(new TextDecoderStream())) {
      said += text;
      const [, address] = /DevTools listening on (ws:\S+)/.exec(said) ?? [];
      if (address === undefined) continue;
      const socket = new WebSocket(address);
      await new Promise((resolve, reject) => {
        socket.onopen = resolve;
        socket.onerror = () => reject(new Error(`cannot connect to ${address}`));
      });
      return new Browser(process, folder, socket);
    }
    throw new Error(`${program} did not start:\n${said}`);
  }

  /** Open a page, and return what a function that runs in it promises. */
  async ask<T>(url: string, inPage: () => Promise<T>): Promise<T> {
    const { targetId } = await this.#send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.#send("Target.attachToTarget", { targetId, flatten: true });
    // This returns once the page has taken the place of the empty one.
    const { errorText } = await this.#send("Page.navigate", { url }, sessionId as string);
    if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
    const asked = { expression: `(${inPage})()`, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.#send("Runtime.evaluate", asked, sessionId as string);
    await this.#send("Target.closeTarget", { targetId });
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value: T }).value;
  }

  async #send(method: string, params: object, sessionId?: string): Promise<Record<string, unknown>> {
    const id = ++this.#sent;
    const asked = Promise.withResolvers<Record<string, unknown>>();
    using _deadline = deadline(() => asked.reject(new Error(`Chromium has not answered ${method}`)));
    this.#waiting.set(id, asked);
    this.#socket.send(JSON.stringify({ id, method, params, ...sessionId !== undefined && { sessionId } }));
    return await asked.promise;
  }

  /** End it. */
  async [Symbol.asyncDispose](): Promise<void> {
    const isClosed = this.#socket.readyState === WebSocket.CLOSED;
    const closed = isClosed ? null : new Promise((resolve) => this.#socket.addEventListener("close", resolve));
    // It may end without an answer.
    await this.#send("Browser.close", {}).catch(() => {});
    using _deadline = deadline(() => this.#process.kill("SIGKILL"));
    await Promise.all([closed, this.#process.status]);
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

/** A text in a picture, where it is on the page. */
export interface Label {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** What is drawn in the picture of a page of `view`. */
export interface Drawing {
  readonly title: string;
  readonly width: number;
  readonly height: number;
  readonly labels: readonly Label[];
  /** How many elements there are of each name, and of each class. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Runs in a page of `view`: waits for the picture, and measures it. */
export async function drawingOfPage(): Promise<Drawing> {
  // deno-lint-ignore no-explicit-any
  const page = (globalThis as any).document;
  const picture = () => page.querySelector("object")?.contentDocument?.querySelector("svg");
  while (page.readyState !== "complete" || !picture()) await new Promise((resolve) => setTimeout(resolve, 20));
  const svg = picture();
  const counts: Record<string, number> = {};
  for (const element of svg.querySelectorAll("*")) {
    for (const name of [element.tagName, ...[...element.classList].map((one) => `.${one}`)]) {
      counts[name] = (counts[name] ?? 0) + 1;
    }
  }
  const { width, height } = svg.getBoundingClientRect();
  // deno-lint-ignore no-explicit-any
  const labels = [...svg.querySelectorAll("text")].map((element: any) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { text: element.textContent, left, right, top, bottom };
  });
  return { title: page.title, width, height, labels, counts };
}

/** Labels that cover each other, and those that are cut at the picture's edge, in words. */
export function faultsOf({ labels, width, height }: Drawing): string[] {
  const shown = labels.filter(({ text, left, right }) => text.trim() !== "" && right > left);
  const common = (a: Label, b: Label) => [
    Math.min(a.right, b.right) - Math.max(a.left, b.left),
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top),
  ];
  const covered = shown.flatMap((one, i) =>
    shown.slice(i + 1).filter((other) => common(one, other).every((extent) => extent > 1))
      .map((other) => `"${one.text}" and "${other.text}" overlap`)
  );
  const cut = shown.filter(({ left, right, top, bottom }) =>
    left < -1 || top < -1 || right > width + 1 || bottom > height + 1
  )
    .map(({ text }) => `"${text}" is cut`);
  return [...covered, ...cut];
}
