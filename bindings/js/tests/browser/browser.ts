// A real Chromium, and a server for its pages that forwards `/v1` like a development server does.

import { readFileSync } from "node:fs";
import { createServer, request as forward, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";

const CSP = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

export async function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--js-flags=--expose-gc", "--enable-precise-memory-info"],
  });
}

/** Bundles an entry for the browser as a program for production is. */
export async function bundle(entry: string, react: "18" | "19" = "19"): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const package18 = (name: string) => dirname(resolve(`${name}18/package.json`));
  const result = await build({
    entryPoints: [fileURLToPath(new URL(entry, import.meta.url))],
    bundle: true,
    write: false,
    format: "iife",
    jsx: "automatic",
    // The Profiler reports in this build alone.
    alias: react === "19" ? { "react-dom/client": "react-dom/profiling" } : { react: package18("react"), "react-dom": package18("react-dom") },
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "error",
  });
  return result.outputFiles[0]!.text;
}

export class PageServer {
  readonly files = new Map<string, string | Buffer>();
  #server: Server | undefined;
  url = "";
  /** Where requests to `/v1` go. */
  api = "";

  async start(): Promise<void> {
    this.#server = createServer((incoming, answer) => {
      const path = (incoming.url ?? "/").split("?")[0]!;
      if (path.startsWith("/v1")) {
        const { host: _, origin: __, ...headers } = incoming.headers;
        const options = { method: incoming.method, headers: { ...headers, host: new URL(this.api).host } };
        const sent = forward(new URL(incoming.url!, this.api), options as never, (received) => {
          answer.writeHead(received.statusCode ?? 502, received.headers);
          received.pipe(answer);
          // A server that was killed breaks the connection of the page, too.
          received.on("error", () => answer.destroy());
        });
        sent.on("error", () => answer.destroy());
        answer.on("close", () => sent.destroy());
        incoming.pipe(sent);
        return;
      }
      const body = this.files.get(path) ?? (path === "/" ? '<!doctype html><div id="root"></div><script src="/page.js"></script>' : undefined);
      const type = path.endsWith(".js") ? "text/javascript" : path === "/" ? "text/html" : "application/octet-stream";
      answer.writeHead(body === undefined ? 404 : 200, { "content-type": type, "content-security-policy": CSP });
      answer.end(body);
    });
    await new Promise<void>((resolve) => this.#server!.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  stop(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  /** Opens a page that runs a bundle, and fails with whatever the page complains about. */
  async open(browser: Browser, script: string): Promise<Page> {
    this.files.set("/page.js", script);
    const page = await browser.newPage();
    page.on("pageerror", (error) => console.error("page:", error));
    await page.goto(this.url);
    return page;
  }
}

export function fixture(name: string): Buffer {
  const folder = process.env.THREADFOLD_FIXTURES ?? fileURLToPath(new URL("../../../../target/js-fixtures", import.meta.url));
  return readFileSync(`${folder}/${name}`);
}
