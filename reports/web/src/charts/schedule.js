// The last step as a Gantt chart: one row for each stream of one rank of each stage.
import { echarts } from '../echarts.js';
import { baseOption, clip, tooltipRows, valueAxis } from '../base.js';
import { formatCount, formatSeconds, secondsUnit, shortNumber } from '../units.js';

// More bars than this are shown a part at first: the whole takes seconds to draw.
const MOST_AT_ONCE = 20000;
const KNOWN = new Map(['forward', 'backward', 'weight grad', 'optimizer', 'input grad', 'gradients', 'several'].map((name, i) => [name, i]));

// At first so many microbatches are shown, and at least as many as fill the pipeline.
const FIRST_MICROBATCHES = 4;

const isCompute = (row) => row.track === 'compute';
/** What is drawn: 0 are the compute streams alone, 1 is everything. */
const chosenRows = ({ rows }, choice) => {
  const compute = rows.filter(isCompute);
  return choice === 0 && compute.length > 0 ? compute : rows;
};

export const choices = ({ detail }) => {
  const all = detail.schedule.rows;
  return {
    label: 'Rows',
    names: [`computing (${formatCount(chosenRows(detail.schedule, 0).length)})`, `computing and communication (${formatCount(all.length)})`],
    first: 0,
  };
};

/** Where the first microbatches end on every row, or the end of the step. */
function firstPart(schedule, begin, end) {
  const wanted = Math.max(FIRST_MICROBATCHES, new Set(schedule.rows.map((row) => row.stage)).size);
  let last = begin;
  for (const row of schedule.rows.filter(isCompute)) {
    row.microbatch.forEach((microbatch, i) => {
      if (microbatch >= 0 && microbatch < wanted) last = Math.max(last, row.begin_ns[i] + row.duration_ns[i]);
    });
  }
  return last > begin && last < end ? last : end;
}

const barCount = (schedule) => schedule.rows.reduce((sum, row) => sum + row.begin_ns.length, 0);
const rowHeight = (rows) => Math.max(7, Math.min(26, 1400 / rows));

/** What the colours mean: [colour, name] for the page's own legend. */
export const key = ({ detail }, theme, choice) => {
  const indices = colorIndices(detail.schedule.names, theme);
  const drawn = new Set(chosenRows(detail.schedule, choice).flatMap((row) => row.name));
  return detail.schedule.names.map((name, i) => [theme.bars[indices[i]], name]).filter((_, i) => drawn.has(i));
};

export const rows = ({ detail }) => detail.schedule.rows.length;
export const height = ({ detail }, width, choice) => {
  const count = chosenRows(detail.schedule, choice).length;
  return Math.ceil(116 + rowHeight(count) * count);
};
export const items = ({ detail }, choice) => barCount({ rows: chosenRows(detail.schedule, choice) });

const FIRST_OTHER = KNOWN.size;

/** Which of the theme's colours each name has: computations theirs, communications share the rest. */
function colorIndices(names, theme) {
  let next = 0;
  return names.map((name) =>
    KNOWN.get(name) ?? FIRST_OTHER + (next++ % (theme.bars.length - FIRST_OTHER)));
}

function dataOf(schedule) {
  const data = [];
  schedule.rows.forEach((row, y) => {
    for (let i = 0; i < row.begin_ns.length; ++i) {
      data.push([y, row.begin_ns[i], row.duration_ns[i], row.name[i], row.microbatch[i], row.chunk[i]]);
    }
  });
  return data;
}

/** A bar, cut at the edges of the grid, with the microbatch where there is room for it. */
function barOf(params, api, names, indices, theme) {
  const [x, y] = api.coord([api.value(1), api.value(0)]);
  const [end] = api.coord([api.value(1) + api.value(2), api.value(0)]);
  const tall = api.size([0, 1])[1] * 0.74;
  const bar = echarts.graphic.clipRectByRect(
    { x, y: y - tall / 2, width: Math.max(end - x, 0.5), height: tall }, params.coordSys);
  if (!bar) return undefined;
  const name = api.value(3);
  const microbatch = api.value(4);
  const shape = { type: 'rect', shape: bar, style: { fill: theme.bars[indices[name]] } };
  if (tall >= 11 && bar.width >= 16 && microbatch >= 0) {
    shape.textContent = { style: { text: `${names[name][0].toUpperCase()}${microbatch}`, fill: theme.onBars[indices[name]], fontSize: 10 } };
    if (bar.width < 26) shape.textContent.style.text = String(microbatch);
    shape.textConfig = { position: 'inside' };
  }
  return shape;
}

export function option({ detail }, theme, width, choice) {
  const schedule = { ...detail.schedule, rows: chosenRows(detail.schedule, choice) };
  const begin = schedule.rows.reduce((least, row) => row.begin_ns.reduce((a, b) => Math.min(a, b), least), 0);
  const end = schedule.rows.reduce((most, row) =>
    row.begin_ns.reduce((last, at, i) => Math.max(last, at + row.duration_ns[i]), most), begin);
  const span = end - begin;
  const unit = secondsUnit(span / 1e9);
  const left = width < 560 ? 84 : 148;
  const labels = schedule.rows.map((row) => `${width < 560 ? '' : 'stage '}${row.stage} ${row.track}`);
  const indices = colorIndices(schedule.names, theme);
  const hasChunks = schedule.rows.some((row) => row.chunk.some((chunk) => chunk > 0));
  const base = baseOption(theme);
  const most = Math.min(100, (100 * MOST_AT_ONCE) / barCount(schedule));
  const part = Math.min(most, (100 * (firstPart(schedule, begin, end) - begin)) / Math.max(span, 1));
  const tick = (ns) => shortNumber(ns / 1e9 / unit.scale);
  const zoom = { xAxisIndex: 0, filterMode: 'weakFilter', start: 0, end: part };
  return {
    ...base,
    grid: { left, right: 16, top: 8, bottom: 88 },
    xAxis: {
      ...valueAxis(theme, `time since the step began, ${unit.name}`),
      min: begin,
      max: end,
      axisLabel: { color: theme.muted, formatter: tick, hideOverlap: true, showMaxLabel: false },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: labels,
      axisLabel: { color: theme.ink, fontSize: 11, formatter: (name) => clip(name, left - 12) },
      axisLine: { show: false },
      axisTick: { show: false },
      splitLine: { show: true, lineStyle: { color: theme.line } },
    },
    dataZoom: [
      { ...zoom, type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true },
      {
        ...zoom, type: 'slider', height: 22, bottom: 10, left, right: 16, showDataShadow: false, brushSelect: false,
        borderColor: theme.line, textStyle: { color: theme.muted, fontSize: 11 },
        labelFormatter: (ns) => `${tick(ns)} ${unit.name}`,
      },
    ],
    tooltip: {
      ...base.tooltip,
      formatter: ({ value: [row, at, lasts, name, microbatch, chunk] }) => tooltipRows(schedule.names[name], [
        [theme.bars[indices[name]], `stage ${schedule.rows[row].stage} ${schedule.rows[row].track}`, `rank ${formatCount(schedule.rows[row].rank)}`],
        ...(microbatch >= 0 ? [[null, 'microbatch', formatCount(microbatch)]] : []),
        ...(hasChunks ? [[null, 'chunk of the model', String(chunk)]] : []),
        [null, 'begins', formatSeconds(at / 1e9)],
        [null, 'lasts', formatSeconds(lasts / 1e9)],
      ]),
    },
    series: [{
      type: 'custom',
      renderItem: (params, api) => barOf(params, api, schedule.names, indices, theme),
      encode: { x: [1], y: 0 },
      dimensions: ['row', 'begin', 'duration', 'name', 'microbatch', 'chunk'],
      progressive: 0,
      data: dataOf(schedule),
    }],
  };
}
