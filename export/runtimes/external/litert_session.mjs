// A LiteRT file in LiteRT.js, for requests that it fetches from bridge.py until that is gone. It runs in a page.

import { Environment, loadAndCompile, loadLiteRt, Tensor } from '@litertjs/core';
import { address, content, describeHost, send, serve } from './wire.mjs';

let environment, model;
const faults = [];  // messages of WebGPU: after a fault, outputs are zero

const requests = {
  async import({ folder, jspi }) {
    await loadLiteRt(address(folder), { jspi: jspi && 'Suspending' in WebAssembly });
    const { version } = JSON.parse(new TextDecoder().decode(await content('@litertjs/core/package.json')));
    return [{ version, host: await describeHost() }, {}];
  },

  async open({ model: name, accelerator, precision }) {
    let device = '';
    const options = { accelerator, cpuOptions: { numThreads: 1 } };
    if (accelerator === 'webgpu') {
      environment = await Environment.create();
      const gpu = environment.webGpuDevice;
      gpu.lost.then(({ reason, message }) => send('died', `WebGPU lost its device (${reason}): ${message}`));
      gpu.addEventListener('uncapturederror', ({ error }) => faults.push(error.message));
      const { vendor, architecture } = gpu.adapterInfo;
      device = [vendor, architecture].filter(Boolean).join(' ');
      Object.assign(options, { environment, gpuOptions: { precision } });
    }
    model?.delete();
    model = await loadAndCompile(await content(name), options);
    const inputs = model.getInputDetails().map(({ name, dtype, shape }) => [name, dtype, Array.from(shape)]);
    return [{ inputs, device, whole: model.isFullyAccelerated }, {}];
  },

  async run(header, given) {
    const tensors = Object.entries(given).map(([name, { data, dims }]) => [name, new Tensor(data, dims, environment)]);
    const outputs = await model.run(Object.fromEntries(tensors));
    const details = Object.fromEntries(model.getOutputDetails().map((each) => [each.name, each]));
    const results = {};
    for (const [name, tensor] of Object.entries(outputs)) {
      const data = await tensor.data();
      results[name] = { type: details[name].dtype, dims: Array.from(details[name].shape), data };
      tensor.delete();
    }
    for (const [, tensor] of tensors) if (!tensor.deleted) tensor.delete();
    if (faults.length) throw new Error(`WebGPU: ${faults[0]}`);
    return [{}, results];
  },
};

await serve(requests);
