// Perfetto's trace processor, the engine behind ui.perfetto.dev, run in Node: load a trace, ask SQL.
// The package wraps the WebAssembly for a browser's worker; here the worker's globals are played by
// a few objects. Requests and replies are the messages of protos/perfetto/trace_processor/
// trace_processor.proto, of which the few fields in use are coded by hand.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const APPEND_TRACE_DATA = 1; // TraceProcessorRpc.TraceProcessorMethod
const FINALIZE_TRACE_DATA = 2;
const QUERY_STREAMING = 3;

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const uintField = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytesField = (field, data) =>
  Buffer.concat([varint((field << 3) | 2), varint(data.length), Buffer.from(data)]);

function readVarint(buffer, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = buffer[at.position++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return BigInt.asUintN(64, value);
  }
}

/** Field number -> list of values: a BigInt, or a Buffer for all else. */
function decode(buffer) {
  const fields = new Map();
  const at = { position: 0 };
  while (at.position < buffer.length) {
    const tag = Number(readVarint(buffer, at));
    let value;
    if ((tag & 7) === 0) {
      value = readVarint(buffer, at);
    } else {
      const size = (tag & 7) === 2 ? Number(readVarint(buffer, at)) : (tag & 7) === 1 ? 8 : 4;
      value = buffer.subarray(at.position, at.position + size);
      at.position += size;
    }
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
  }
  return fields;
}

function readPacked(buffers, read) {
  const values = [];
  for (const buffer of buffers ?? []) {
    const at = { position: 0 };
    while (at.position < buffer.length) values.push(read(buffer, at));
  }
  return values;
}

/** Rows of one CellsBatch, as flat list of cells. */
function cellsOf(batch) {
  const varints = readPacked(batch.get(2), readVarint);
  const doubles = readPacked(batch.get(3), (b, at) => b.readDoubleLE((at.position += 8) - 8));
  const strings = (batch.get(5)?.[0].toString() ?? '').split('\0');
  const take = {
    1: () => null,
    2: () => Number(BigInt.asIntN(64, varints.shift())),
    3: () => doubles.shift(),
    4: () => strings.shift(),
  };
  return readPacked(batch.get(1), readVarint).map((type) => take[Number(type)]());
}

export class TraceProcessor {
  #port;
  #replies = [];
  #sequence = 0;

  /** Starts the engine of the package whose engine_bundle.js is at `path`. */
  static async start(path) {
    const processor = new TraceProcessor();
    const wasm = readFileSync(join(dirname(path), 'trace_processor.wasm'));
    const silent = () => {}; // The engine tells of its progress.
    const worker = { location: { href: 'file:///engine_bundle.js' } };
    const globals = {
      self: worker,
      process: undefined, // It must not notice that this is Node.
      console: { ...console, log: silent, warn: silent },
      importScripts: silent,
      // The only thing it ever asks for is its WebAssembly, synchronously.
      XMLHttpRequest: class {
        open() {}
        send() {}
        response = new Uint8Array(wasm).buffer;
      },
    };
    // In a function, not a context of its own: it compares the classes of what it is given.
    new Function(...Object.keys(globals), readFileSync(path, 'utf8'))(...Object.values(globals));
    const port = { postMessage: (data) => processor.#replies.push(Buffer.from(data)) };
    worker.onmessage({ data: { enginePort: port } });
    processor.#port = port;
    await processor.#started();
    return processor;
  }

  load(trace) {
    const size = 1 << 20; // Requests are limited in size.
    for (let start = 0; start < trace.length; start += size) {
      const part = trace.subarray(start, start + size);
      const reply = this.#request(APPEND_TRACE_DATA, bytesField(101, part));
      const error = decode(reply[0].get(201)?.[0] ?? Buffer.alloc(0)).get(2)?.[0];
      if (error) throw new Error(`the trace is refused: ${error}`);
    }
    this.#request(FINALIZE_TRACE_DATA);
  }

  /** All rows, each a list of numbers, strings and nulls. */
  query(sql) {
    const replies = this.#request(QUERY_STREAMING, bytesField(103, bytesField(1, Buffer.from(sql))));
    const results = replies.map((reply) => decode(reply.get(203)[0]));
    const error = results.map((result) => result.get(2)?.[0]).find((text) => text?.length > 0);
    if (error) throw new Error(`${error} in: ${sql}`);
    const columns = results[0].get(1).length;
    const cells = results.flatMap((r) => (r.get(3) ?? []).flatMap((b) => cellsOf(decode(b))));
    const rows = [];
    for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
    return rows;
  }

  #request(method, args = Buffer.alloc(0)) {
    this.#replies = [];
    const message = Buffer.concat([uintField(1, this.#sequence++), uintField(2, method), args]);
    this.#port.onmessage({ data: new Uint8Array(bytesField(1, message)) });
    const messages = decode(Buffer.concat(this.#replies)).get(1) ?? [];
    const replies = messages.map(decode);
    const fatal = replies.map((reply) => reply.get(5)?.[0]).find(Boolean);
    if (fatal) throw new Error(`the trace processor failed: ${fatal}`);
    return replies;
  }

  /** The WebAssembly is compiled in the background; until then a request reaches nothing. */
  async #started() {
    for (let tries = 0; tries < 600; ++tries) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      try {
        if (this.query('select 1')[0][0] === 1) return;
      } catch {
        this.#sequence = 0;
      }
    }
    throw new Error('the trace processor did not start');
  }
}
