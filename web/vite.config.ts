import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.THREADFOLD_URL ?? "http://127.0.0.1:4127";
const forward = { target: server, changeOrigin: true, ws: true, headers: { origin: server } };

/** What the server sends, so that a preview breaks where the page would. */
const policy =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; " +
  "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export default defineConfig({
  plugins: [react()],
  // The package is linked, and must not bring a React of its own.
  resolve: { dedupe: ["react", "react-dom"] },
  server: { proxy: { "/v1": forward } },
  preview: { proxy: { "/v1": forward }, headers: { "content-security-policy": policy } },
  build: {
    target: "es2022",
    // Inline data would be counted with the script, and a data URL is no file that can be cached.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
