// The figures of a run as elements. All words of scenarios are text, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(name, attributes, ink) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (ink) made.style.fill = `var(--${ink})`;
  return made;
}

/** One stacked bar with its legend. `line`: a place that is marked; 0: none. */
function drawBar(place, parts, line, label) {
  const whole = parts.reduce((sum, { amount }) => sum + amount, 0);
  const full = Math.max(whole, line) * 1.005;
  const bar = shape('svg', { viewBox: '0 0 1000 44', preserveAspectRatio: 'none', role: 'img', 'aria-label': label });
  let begin = 0;
  for (const { name, ink, amount, words } of parts) {
    const part = shape('rect', { x: begin / full * 1000, y: 6, width: amount / full * 1000, height: 32 }, ink);
    part.append(shape('title', {}));
    part.firstChild.textContent = `${name}: ${words}`;
    bar.append(part);
    begin += amount;
  }
  if (line > 0) {
    const x = line / full * 1000;
    bar.append(shape('line', { x1: x, x2: x, y1: 0, y2: 44, class: 'limit' }));
  }
  const legend = element('ul', undefined, 'legend');
  for (const { name, ink, amount, words } of parts) {
    const row = element('li');
    const key = element('i');
    key.style.background = `var(--${ink})`;
    row.append(key, element('span', name), element('b', words), element('span', `${(100 * amount / (line || whole)).toFixed(1)} %`));
    legend.append(row);
  }
  place.replaceChildren(bar, legend);
}

function drawTiles(place, tiles) {
  place.replaceChildren(...tiles.map(({ name, value, model, note }) => {
    const tile = element('div');
    tile.append(element('dt', name), element('dd', value, 'value'));
    if (model) tile.append(element('dd', model, 'model'));
    tile.append(element('dd', note, 'note'));
    return tile;
  }));
}

function drawRun(shown) {
  byId('errors').hidden = true;
  byId('facts').textContent = shown.facts;
  byId('verdict').textContent = shown.verdict;
  byId('verdict').className = shown.is_ok ? 'good' : 'bad';
  drawTiles(byId('tiles'), shown.tiles);
  drawBar(byId('time'), shown.time, 0, 'Parts of the time of a step');
  drawBar(byId('memory'), shown.memory, shown.device_bytes, 'Parts of the memory of a GPU');
  byId('text').textContent = shown.text;
}

function drawErrors(errors) {
  byId('errors').hidden = false;
  byId('verdict').textContent = 'No figures: see above.';
  byId('verdict').className = 'bad';
  byId('error-list').replaceChildren(...errors.map(({ code, message, help, pointer }) => {
    const row = element('li');
    row.append(element('b', code), ` ${message}${pointer ? ` (${pointer.slice(1).replaceAll('/', '.')})` : ''}`);
    if (help) row.append(element('p', help, 'note'));
    return row;
  }));
  for (const id of ['tiles', 'time', 'memory', 'text']) byId(id).replaceChildren();
}
