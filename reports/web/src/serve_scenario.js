'use strict';
// A scenario as text and as an object, and what the controls change in it. The text is the state of
// the page: a link holds its exact bytes.

const FIRST = {
  schema_version: 1,
  name: 'a layout',
  model: { preset: 'llama3-70b' },
  system: { preset: 'dgx-h100', ranks: 128 },
  parallelism: { tp: 4, pp: 4, zero_stage: 1, sequence_parallel: true },
  training: { global_batch_size: 128, micro_batch_size: 1 },
  execution: { fold: 'auto' },
};

const textOf = (scenario) => `${JSON.stringify(scenario, null, 2)}\n`;

/** The scenario, or null where the text is no plain JSON object: it may have comments. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** Bytes in the letters that an address may have (RFC 4648, section 5), and back. */
function toLetters(text) {
  let binary = '';
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}
function fromLetters(letters) {
  try {
    const binary = atob(letters.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** "10T" as a number of tokens; NaN for other words, and 0 for none. */
function readAmount(words) {
  const scale = { '': 1, K: 1e3, M: 1e6, B: 1e9, G: 1e9, T: 1e12 };
  const match = /^\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([KMBGT]?)\s*$/i.exec(words);
  if (match === null) return words.trim() === '' ? 0 : NaN;
  return Number(match[1]) * scale[match[2].toUpperCase()];
}
function amountWords(amount) {
  if (!(amount > 0)) return '';
  for (const [letter, size] of [['T', 1e12], ['B', 1e9], ['M', 1e6], ['K', 1e3]]) {
    if (amount >= size && Number.isInteger(amount / size * 1000)) return `${amount / size}${letter}`;
  }
  return String(amount);
}

const section = (scenario, name) => {
  const value = scenario[name];
  if (typeof value === 'string') scenario[name] = { preset: value };
  else if (value === null || typeof value !== 'object') scenario[name] = {};
  return scenario[name];
};

/** The number of GPUs, however the scenario says it. */
function gpusOf(scenario, presets) {
  const system = section(scenario, 'system');
  const preset = presets.systems.find(({ name }) => name === system.preset);
  if (typeof system.ranks === 'number') return system.ranks;
  return (system.nodes ?? 1) * (system.gpus_per_node?.value ?? system.gpus_per_node ?? preset?.gpus_per_node ?? 8);
}

function setGpus(scenario, gpus, presets) {
  const system = section(scenario, 'system');
  const preset = presets.systems.find(({ name }) => name === system.preset);
  const perNode = preset?.gpus_per_node ?? 8;
  delete system.nodes;
  delete system.gpus_per_node;
  system.ranks = gpus;
  if (gpus < perNode) system.gpus_per_node = gpus; // A part of a node.
  for (const key of ['dp_replicate', 'dp_shard']) delete section(scenario, 'parallelism')[key];
}

/** As `shardsim plan` chooses it: 4 Ki tokens for each GPU, from 1 Mi to 16 Mi tokens. */
function defaultBatch(sequence, gpus) {
  const tokens = Math.min(Math.max(gpus * 4096, 1 << 20), 1 << 24);
  const batch = Math.max(Math.floor(tokens / sequence), 1);
  let odd = gpus;
  while (odd % 2 === 0) odd /= 2;
  if (odd === 1 || odd > 2 * batch) return batch;
  let whole = odd;
  while (whole < batch) whole *= 2;
  return whole;
}

const sequenceOf = (scenario, presets) => {
  const model = section(scenario, 'model');
  return model.seq_len ?? presets.models.find(({ name }) => name === model.preset)?.seq_len ?? 4096;
};

/** Sets a key, or leaves it out where the value is the usual one. */
function setOrLeave(object, key, value, usual) {
  if (value === usual) delete object[key];
  else object[key] = value;
}

/** The fields of a layout that a search found. */
function takeLayout(scenario, best) {
  const { fields } = best;
  const parallelism = section(scenario, 'parallelism');
  const training = section(scenario, 'training');
  for (const key of ['tp', 'pp', 'cp', 'ep', 'etp', 'vpp', 'dp_replicate']) setOrLeave(parallelism, key, fields[key], 1);
  for (const key of ['dp_shard', 'schedule_file', 'stage_layers']) delete parallelism[key];
  parallelism.zero_stage = fields.zero_stage;
  setOrLeave(parallelism, 'sequence_parallel', fields.sequence_parallel, false);
  setOrLeave(parallelism, 'schedule', fields.schedule, 'none');
  training.micro_batch_size = fields.micro_batch_size;
  training.global_batch_size = best.global_batch_size;
  delete training.num_microbatches;
  setOrLeave(training, 'recompute', fields.recompute, 'none');
  section(scenario, 'system').software = best.software;
}

/** A word of a shell, whatever is in it. */
const shellWord = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** A line for a terminal that gives the same figures. From the parsed scenario, so that the text of a
 * stranger's link cannot be a second command. */
const commandOf = (scenario) => `printf %s ${shellWord(JSON.stringify(scenario))} | shardsim run -`;
