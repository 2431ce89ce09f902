// Messages of bridge.py: a script in Node, or in a page of the bridge, fetches requests from it until it is gone.

export const inNode = globalThis.process?.versions?.node !== undefined;
const home = inNode ? process.argv[2] : new URL('.', location.href).href;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, bool: Uint8Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};

function unpack(buffer) {
  let start = 4 + new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(buffer.slice(4, start)));
  const tensors = {};
  for (const { name, dtype, shape, strings } of header.tensors) {
    if (dtype === 'string') {
      tensors[name] = { type: dtype, data: strings, dims: shape };
      continue;
    }
    const bytes = ARRAYS[dtype].BYTES_PER_ELEMENT * shape.reduce((a, b) => a * b, 1);
    tensors[name] = { type: dtype, data: new ARRAYS[dtype](buffer.slice(start, start + bytes)), dims: shape };
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

export const address = (name) => new URL(name, home).href;
export const content = async (name) => new Uint8Array(await (await fetch(address(name))).arrayBuffer());
export const send = (name, body) => fetch(address(name), { method: 'POST', body });

export async function describeHost() {
  if (inNode) return `Node ${process.versions.node}`;
  const versions = await navigator.userAgentData?.getHighEntropyValues(['fullVersionList']);
  const brand = versions?.fullVersionList.find(({ brand }) => !/not.*brand/i.test(brand));
  return brand ? `${brand.brand} ${brand.version}` : navigator.userAgent;
}

async function answer(requests, buffer) {
  try {
    const [header, tensors] = unpack(buffer);
    return pack(...await requests[header.request](header, tensors));
  } catch (error) {
    return pack({ error: String(error) }, {});
  }
}

// Answers requests with functions of their name, each of a header and tensors. Returns when the bridge is gone.
export async function serve(requests) {
  if (!inNode) fetch(address('alive')).catch(() => {});
  for (;;) {
    const response = await fetch(address('next')).catch(() => null);
    if (response === null) break;
    if (response.status === 200) await send('answer', await answer(requests, await response.arrayBuffer()));
  }
}
