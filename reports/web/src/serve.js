// The page of `shardsim serve`: each change of a control is a simulation.

const page = Math.random().toString(36).slice(2);
const DOUBLINGS = Array.from({ length: 14 }, (_, power) => 2 ** power);
const state = { text: '', scenario: null, presets: { models: [], systems: [], schedules: [] }, asked: null, search: null };

// --- Asking -----------------------------------------------------------------------------------

function post(name, body, signal) {
  const headers = { 'Content-Type': 'application/json', 'Shardsim-Page': page };
  return fetch(name, { method: 'POST', headers, body, signal });
}

/** Simulates the scenario. A newer one ends an older one: its connection closes. */
async function simulate() {
  state.asked?.abort();
  const asked = new AbortController();
  state.asked = asked;
  byId('answer').setAttribute('aria-busy', 'true');
  try {
    const answer = await post('show', state.text, asked.signal);
    const shown = await answer.json();
    if (state.asked !== asked) return;
    if (answer.ok) drawRun(shown);
    else drawErrors(shown.errors);
    byId('answer').dataset.scenario = toLetters(state.text);
    byId('answer').setAttribute('aria-busy', 'false');
  } catch (error) {
    if (state.asked !== asked || error.name === 'AbortError') return;
    drawErrors([{ code: 'No answer', message: 'the server does not answer', help: 'Start shardsim serve again, and open the address that it prints.' }]);
    byId('answer').setAttribute('aria-busy', 'false');
  }
}

// --- The text and its controls ----------------------------------------------------------------

const options = (id, values) => byId(id).replaceChildren(...values.map((value) => new Option(...[value].flat())));

/** The choice of a control; one that the list lacks is added. */
function choose(id, value) {
  const control = byId(id);
  if (control.tagName === 'SELECT' && ![...control.options].some((option) => option.value === String(value))) {
    control.append(new Option(value, value));
  }
  control.value = value;
}

function showControls() {
  const scenario = state.scenario === null ? null : structuredClone(state.scenario);
  byId('fields').disabled = scenario === null;
  byId('search').disabled = scenario === null;
  byId('locked').hidden = scenario !== null;
  if (scenario === null) return;
  const [model, system, parallelism, training] = ['model', 'system', 'parallelism', 'training'].map((name) => section(scenario, name));
  choose('model', model.preset ?? '');
  choose('system', system.preset ?? '');
  const gpus = gpusOf(scenario, state.presets);
  choose('gpus', gpus);
  byId('gpus-slider').value = Math.round(Math.log2(Math.max(gpus, 1)));
  choose('tokens', amountWords(training.tokens_total));
  choose('price', section(scenario, 'cost').usd_per_gpu_hour || '');
  for (const key of ['tp', 'pp', 'vpp', 'cp', 'ep']) choose(key, parallelism[key] ?? 1);
  choose('zero', parallelism.zero_stage ?? 0);
  choose('micro', training.micro_batch_size ?? 1);
  choose('batch', training.global_batch_size ?? '');
  choose('recompute', training.recompute ?? 'none');
  choose('schedule', parallelism.schedule ?? 'auto');
}

/** Takes a text as the page's scenario. */
function take(text) {
  state.text = text;
  state.scenario = parsed(text);
  history.replaceState(null, '', `#s=${toLetters(text)}`);
  byId('command').textContent = state.scenario === null ? '' : commandOf(state.scenario);
  byId('download').href = `data:application/json;base64,${btoa(String.fromCharCode(...new TextEncoder().encode(text)))}`;
  showControls();
  simulate();
}

/** What a control changes in the scenario. */
const CHANGES = {
  model: (scenario, value) => {
    scenario.model = { preset: value };
    const sequence = sequenceOf(scenario, state.presets);
    section(scenario, 'training').global_batch_size = defaultBatch(sequence, gpusOf(scenario, state.presets));
    const { num_experts: experts } = state.presets.models.find(({ name }) => name === value) ?? {};
    if (!experts) delete section(scenario, 'parallelism').ep;
  },
  system: (scenario, value) => {
    const gpus = gpusOf(scenario, state.presets);
    const { software } = section(scenario, 'system');
    scenario.system = { preset: value, ...(software ? { software } : {}) };
    setGpus(scenario, gpus, state.presets);
  },
  gpus: (scenario, value) => {
    const gpus = Number(value);
    if (!Number.isInteger(gpus) || gpus < 1) return;
    const sequence = sequenceOf(scenario, state.presets);
    const training = section(scenario, 'training');
    const isUsual = training.global_batch_size === defaultBatch(sequence, gpusOf(scenario, state.presets));
    setGpus(scenario, gpus, state.presets);
    if (isUsual) training.global_batch_size = defaultBatch(sequence, gpus);
  },
  tokens: (scenario, value) => setOrLeave(section(scenario, 'training'), 'tokens_total', readAmount(value), 0),
  price: (scenario, value) => setOrLeave(section(scenario, 'cost'), 'usd_per_gpu_hour', Number(value), 0),
  zero: (scenario, value) => { section(scenario, 'parallelism').zero_stage = Number(value); },
  micro: (scenario, value) => { section(scenario, 'training').micro_batch_size = Number(value); },
  batch: (scenario, value) => { section(scenario, 'training').global_batch_size = Number(value); },
  recompute: (scenario, value) => setOrLeave(section(scenario, 'training'), 'recompute', value, 'none'),
  schedule: (scenario, value) => setOrLeave(section(scenario, 'parallelism'), 'schedule', value, 'auto'),
};
for (const key of ['tp', 'pp', 'vpp', 'cp', 'ep']) {
  CHANGES[key] = (scenario, value) => {
    const parallelism = section(scenario, 'parallelism');
    setOrLeave(parallelism, key, Number(value), 1);
    for (const derived of ['dp_replicate', 'dp_shard']) delete parallelism[derived];
    if (key === 'tp') setOrLeave(parallelism, 'sequence_parallel', Number(value) > 1, false);
    if (key === 'pp' && Number(value) === 1) for (const part of ['vpp', 'schedule']) delete parallelism[part];
  };
}

function change(id, value) {
  if (state.scenario === null) return;
  stopSearch();
  const scenario = structuredClone(state.scenario);
  CHANGES[id](scenario, value);
  if (textOf(scenario) !== state.text) take(textOf(scenario));
}

// --- The search -------------------------------------------------------------------------------

function stopSearch() {
  state.search?.abort();
  state.search = null;
  byId('search').textContent = 'Find the best layout';
}

/** Calls note(name, data) for each event of the stream. */
async function readEvents(answer, note) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const [name, data] = event.split('\n');
      note(name.replace('event: ', ''), JSON.parse(data.replace('data: ', '')));
    }
  }
}

function searchRequest(scenario) {
  const [model, system, training] = ['model', 'system', 'training'].map((name) => section(scenario, name));
  const asked = { model: model.preset ?? '', gpu: system.preset ?? '', gpus: gpusOf(scenario, state.presets) };
  if (model.seq_len) asked.seq_len = model.seq_len;
  if (training.global_batch_size) asked.global_batch_size = training.global_batch_size;
  if (typeof training.precision === 'string') asked.precision = training.precision;
  return asked;
}

function noteSearch(name, data) {
  const words = byId('search-words');
  if (name === 'error') words.textContent = data.errors.map(({ message, help }) => `${message}; ${help}`).join(' ');
  if (name === 'best') {
    words.textContent = `Best of ${data.simulated} so far: ${data.words}`;
    const scenario = structuredClone(state.scenario);
    takeLayout(scenario, data);
    if (textOf(scenario) !== state.text) take(textOf(scenario));
  }
  if (name === 'done') {
    const gap = data.gap > 0 ? `, at most ${(100 * data.gap).toPrecision(2)} % from the best` : '';
    words.textContent = data.found
      ? `Shown is the best layout of ${data.candidates.toLocaleString('en')}${gap}: ${data.why}.`
      : `No layout that fits was found: ${data.why}.`;
  }
}

async function search() {
  if (state.search !== null) {
    stopSearch();
    byId('search-words').textContent = 'Stopped: shown is the best so far.';
    return;
  }
  const asked = new AbortController();
  state.search = asked;
  byId('search').textContent = 'Stop';
  byId('search-words').textContent = 'Searching.';
  try {
    const answer = await post('plan', JSON.stringify(searchRequest(structuredClone(state.scenario))), asked.signal);
    if (answer.headers.get('Content-Type') === 'text/event-stream') await readEvents(answer, (name, data) => state.search === asked && noteSearch(name, data));
    else noteSearch('error', await answer.json());
  } catch (error) {
    if (error.name !== 'AbortError') byId('search-words').textContent = 'The server does not answer.';
  }
  if (state.search === asked) stopSearch();
}

// --- The start --------------------------------------------------------------------------------

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    byId('copied').textContent = 'Copied.';
  } catch {
    byId('copied').textContent = 'The browser does not allow it: select and copy it by hand.';
  }
}

const textOfLink = () => (location.hash.startsWith('#s=') ? fromLetters(location.hash.slice(3)) : null);

function listen() {
  for (const id of Object.keys(CHANGES)) byId(id).addEventListener('change', (event) => change(id, event.target.value));
  byId('gpus-slider').addEventListener('input', (event) => change('gpus', DOUBLINGS[event.target.value]));
  byId('controls').addEventListener('submit', (event) => event.preventDefault());
  byId('search').addEventListener('click', search);
  byId('copy-link').addEventListener('click', () => copy(location.href));
  byId('copy-command').addEventListener('click', () => copy(byId('command').textContent));
  addEventListener('hashchange', () => {
    const text = textOfLink();
    if (text !== null && text !== state.text) take(text);
  });
}

async function start() {
  listen();
  state.presets = await (await fetch('presets')).json();
  options('model', state.presets.models.map(({ name }) => name));
  options('system', state.presets.systems.map(({ name, title }) => [title, name]));
  for (const key of ['tp', 'pp', 'cp', 'ep']) options(key, DOUBLINGS.slice(0, 8));
  options('vpp', [1, 2, 3, 4, 5, 6, 8, 10]);
  options('zero', [0, 1, 2, 3]);
  options('micro', DOUBLINGS.slice(0, 7));
  options('recompute', ['none', 'selective', 'full']);
  options('schedule', ['auto', ...state.presets.schedules]);
  take(textOfLink() ?? textOf(FIRST));
}

start();
