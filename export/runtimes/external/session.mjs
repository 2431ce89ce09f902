// Sessions of onnxruntime-web or onnxruntime-node, for requests that it fetches from bridge.py until that is gone.
// The same file runs in Node, where the bridge's address is its argument, and in a page of the bridge.

import { address, content, describeHost, inNode, send, serve } from './wire.mjs';

let ort;
const sessions = new Map();
const placed = new Map(); // nodes by execution provider, as ONNX Runtime itself logs it

// ONNX Runtime says which provider got which node in its log only. In a page and in wasm that is the console.
function listen() {
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) {
    const write = console[level].bind(console);
    console[level] = (...words) => {
      const line = words.join(' ');
      const found = /placed on \[(\w+)\]\. Number of nodes: (\d+)/.exec(line);
      if (found) placed.set(found[1], (placed.get(found[1]) ?? 0) + Number(found[2]));
      else if (!/\[[VI]:onnxruntime/.test(line)) write(line);
    };
  }
}

const requests = {
  async import({ module, folder }) {
    if (inNode) {
      const { createRequire } = await import('node:module');
      ort = createRequire(`${folder}/`)(module);
    } else {
      ort = await import(address(module));
    }
    if (ort.env.wasm) ort.env.wasm.numThreads = 1; // one order of summation, as everywhere else
    if (!inNode) ort.env.wasm.wasmPaths = address(`${folder}/`);
    ort.env.logLevel = 'verbose';
    return [{ version: ort.env.versions.node ?? ort.env.versions.web, host: await describeHost() }, {}];
  },

  async open({ session, model, file, external, provider, level }) {
    placed.clear();
    if (isNative()) external = [];
    const options = {
      executionProviders: [provider], graphOptimizationLevel: level, logSeverityLevel: 0,
      externalData: await Promise.all(external.map(async ({ path, url }) => ({ path, data: await content(url) }))),
    };
    const opened = await ort.InferenceSession.create(file && isNative() ? file : await content(model), options);
    await sessions.get(session)?.release();
    sessions.set(session, opened);
    const device = provider === 'webgpu' ? await watchDevice() : '';
    const inputs = opened.inputMetadata.map(({ name, type, shape }) => [name, type, shape]);
    return [{ inputs, placed: Object.fromEntries(placed), device }, {}];
  },

  async run({ session, fetches }, given) {
    const opened = sessions.get(session);
    const made = Object.entries(given).map(([name, { type, data, dims }]) => [name, new ort.Tensor(type, data, dims)]);
    return [{}, await opened.run(Object.fromEntries(made), fetches ?? opened.outputNames, { logSeverityLevel: 4 })];
  },
};

let device;
async function watchDevice() {
  if (device !== await ort.env.webgpu.device) {
    device = await ort.env.webgpu.device;
    device.lost.then(({ reason, message }) => send('died', `WebGPU lost its device (${reason}): ${message}`));
  }
  const { vendor, architecture, device: name } = device.adapterInfo;
  return [vendor, architecture, name].filter(Boolean).join(' ');
}

// onnxruntime-node reads files itself, those with the weights among them, however large.
const isNative = () => ort.env.versions.node !== undefined;

listen();
await serve(requests);
