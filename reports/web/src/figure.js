// One chart in its place of the page: drawn, drawn anew when colours or the width change. What was
// drawn stands in the attributes `data-drawn` and `data-items`, for tests and for the curious; so does
// ECharts' own object, as `drawing` of the place.
import { echarts } from './echarts.js';
import { readTheme } from './theme.js';

/** Older browsers without the question give what is folded away no width. */
const isSeen = (place) => (place.checkVisibility?.() ?? true) && place.clientWidth > 0;

export class Figure {
  #place;
  #module;
  #data;
  #chart = null;
  #choice = 0;
  #key = null;
  #width = 0;

  constructor(place, module, data) {
    this.#place = place;
    this.#module = module;
    this.#data = data;
    if (module.choices && module.rows(data) > 1) this.#offerChoice(module.choices(data));
  }

  /** Resolves when ECharts has finished, or at once where the place is folded away. */
  async draw() {
    const place = this.#place;
    if (!isSeen(place)) {
      this.#width = 0; // Drawn when it is seen.
      return undefined;
    }
    this.#width = place.clientWidth;
    place.style.height = `${this.#module.height(this.#data, this.#width, this.#choice)}px`;
    const theme = readTheme();
    if (this.#module.key) this.#drawKey(this.#module.key(this.#data, theme, this.#choice, this.#width));
    this.#chart?.dispose();
    this.#chart = place.drawing = echarts.init(place, null, { renderer: 'canvas' });
    const finished = new Promise((resolve) => {
      this.#chart.on('finished', resolve);
    });
    this.#chart.setOption(this.#module.option(this.#data, theme, this.#width, this.#choice));
    return finished.then(() => {
      place.dataset.items = this.#module.items?.(this.#data, this.#choice) ?? this.#count();
      place.dataset.drawn = 'true';
    });
  }

  resize() {
    return isSeen(this.#place) && this.#place.clientWidth !== this.#width ? this.draw() : Promise.resolve();
  }

  #count() {
    return this.#chart.getOption().series.reduce((sum, series) => sum + series.data.length, 0);
  }

  #drawKey(entries) {
    if (!this.#key) {
      this.#key = document.createElement('ul');
      this.#key.className = this.#place.classList.contains('has-static') ? 'key has-static' : 'key';
      this.#place.before(this.#key);
    }
    this.#key.replaceChildren(...entries.map(([color, name]) => {
      const item = document.createElement('li');
      const swatch = document.createElement('i');
      swatch.style.background = color;
      item.append(swatch, name);
      return item;
    }));
  }

  #offerChoice({ label, names, first }) {
    this.#choice = first;
    const select = document.createElement('select');
    names.forEach((name, i) => select.add(new Option(name, String(i), i === first, i === first)));
    select.addEventListener('change', () => {
      this.#choice = Number(select.value);
      this.draw();
    });
    const labelled = document.createElement('label');
    labelled.className = 'choice';
    labelled.append(`${label} `, select);
    this.#place.before(labelled);
  }
}
