const server = "http://127.0.0.1:4127";
const forward = { target: server, changeOrigin: true, headers: { origin: server } };
export default {
  oxc: { jsx: { runtime: "automatic" } },
  server: { proxy: { "/v1": forward } },
  preview: { proxy: { "/v1": forward } },
};
