// Sessions of onnxruntime-web or onnxruntime-node, for requests that it fetches from bridge.py until that is gone.
// The same file runs in Node, where the bridge's address is its argument, and in a page of the bridge.

const inNode = globalThis.process?.versions?.node !== undefined;
const home = inNode ? process.argv[2] : new URL('.', location.href).href;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, bool: Uint8Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};

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

function unpack(buffer) {
  let start = 4 + new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(buffer.slice(4, start)));
  const tensors = {};
  for (const { name, dtype, shape, strings } of header.tensors) {
    if (dtype === 'string') {
      tensors[name] = new ort.Tensor('string', strings, shape);
      continue;
    }
    const bytes = ARRAYS[dtype].BYTES_PER_ELEMENT * shape.reduce((a, b) => a * b, 1);
    tensors[name] = new ort.Tensor(dtype, new ARRAYS[dtype](buffer.slice(start, start + bytes)), shape);
    start += bytes;
  }
  return [header, tensors];
}

function pack(header, tensors) {
  const parts = [];
  header.tensors = Object.entries(tensors).map(([name, { type, dims, data }]) => {
    if (type === 'string') return { name, dtype: type, shape: dims, strings: data };
    if (!(type in ARRAYS)) throw new Error(`output ${name} has the type ${type}, which cannot be sent`);
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return { name, dtype: type, shape: dims };
  });
  const head = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, head.length, true);
  return new Blob([length, head, ...parts]);
}

const requests = {
  async import({ module, folder }) {
    if (inNode) {
      const { createRequire } = await import('node:module');
      ort = createRequire(`${folder}/`)(module);
    } else {
      ort = await import(new URL(module, home).href);
    }
    if (ort.env.wasm) ort.env.wasm.numThreads = 1; // one order of summation, as everywhere else
    if (!inNode) ort.env.wasm.wasmPaths = new URL(`${folder}/`, home).href;
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

  async run({ session, fetches }, tensors) {
    const opened = sessions.get(session);
    return [{}, await opened.run(tensors, fetches ?? opened.outputNames, { logSeverityLevel: 4 })];
  },
};

async function describeHost() {
  if (inNode) return `Node ${process.versions.node}`;
  const versions = await navigator.userAgentData?.getHighEntropyValues(['fullVersionList']);
  const brand = versions?.fullVersionList.find(({ brand }) => !/not.*brand/i.test(brand));
  return brand ? `${brand.brand} ${brand.version}` : navigator.userAgent;
}

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
const content = async (name) => new Uint8Array(await (await fetch(new URL(name, home))).arrayBuffer());
const send = (name, body) => fetch(new URL(name, home), { method: 'POST', body });

async function answer(buffer) {
  try {
    const [header, tensors] = unpack(buffer);
    return pack(...await requests[header.request](header, tensors));
  } catch (error) {
    return pack({ error: String(error) }, {});
  }
}

listen();
if (!inNode) fetch(new URL('alive', home)).catch(() => {});
for (;;) {
  const response = await fetch(new URL('next', home)).catch(() => null);
  if (response === null) break;
  if (response.status === 200) await send('answer', await answer(await response.arrayBuffer()));
}
