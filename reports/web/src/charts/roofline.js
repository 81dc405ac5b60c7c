// Operations against what the device can do: how many operations a byte of memory traffic feeds,
// and the rate that comes of it. Both axes are logarithmic; the area of a point is its time.
import { baseOption, clip, tooltipRows, valueAxis } from '../base.js';
import { formatCount, formatFlops, formatNumber, formatPercent, formatSeconds, formatTraffic } from '../units.js';

const points = ({ detail }) =>
  detail.roofline.points.filter((point) => point.flops > 0 && point.bytes > 0 && point.time_s > 0);
const decade = (value, round) => 10 ** round(Math.log10(value));
const power = (value) => {
  const exponent = Math.round(Math.log10(value));
  if (exponent < -2 || exponent > 6) return `1e${exponent}`;
  return exponent < 0 ? String(Number((10 ** exponent).toPrecision(1))) : formatCount(10 ** exponent);
};

// Of so many operations, those that take most time, the names stand beside the plot; where it is
// narrow, above it in the colours of the points.
const NAMED = 12;
const NARROW = 560;
const PITCH = 16;
const NAMES_WIDTH = 190;

const longestFirst = (data) => [...points(data)].sort((a, b) => b.time_s - a.time_s);
const colorOf = (theme, i) => (i < NAMED ? theme.bars[i % theme.bars.length] : theme.muted);

export const key = (data, theme, _, width) => (width < NARROW
  ? longestFirst(data).slice(0, NAMED).map((point, i) => [colorOf(theme, i), point.name])
  : []);

/** A line from each point to its name; names do not overlap. */
function namesOf({ coordSys }, api, named, theme) {
  const right = coordSys.x + coordSys.width;
  const bottom = coordSys.y + coordSys.height;
  const places = named.map(({ name, value }, i) => {
    const [x, y] = api.coord(value);
    return { name, x, y, color: colorOf(theme, i) };
  }).sort((a, b) => a.y - b.y);
  let free = coordSys.y;
  places.forEach((place, i) => {
    const latest = bottom - PITCH * (places.length - i);
    place.at = Math.min(Math.max(place.y, free), latest);
    free = place.at + PITCH;
  });
  return {
    type: 'group',
    children: places.flatMap(({ name, x, y, at, color }) => [
      {
        type: 'polyline', silent: true,
        shape: { points: [[x, y], [right + 10, at], [right + 18, at]] },
        style: { stroke: color, lineWidth: 1, fill: 'none', opacity: 0.7 },
      },
      {
        type: 'text', silent: true,
        style: { text: clip(name, NAMES_WIDTH - 30), x: right + 22, y: at, verticalAlign: 'middle', fill: theme.ink, fontSize: 11 },
      },
    ]),
  };
}

export const rows = (data) => points(data).length;
export const height = () => 420;

export function option(data, theme, width) {
  const { peak_flops_per_s: peak, memory_bytes_per_s: memory } = data.detail.roofline;
  const all = longestFirst(data);
  const time = all.reduce((sum, point) => sum + point.time_s, 0);
  const intensity = (point) => point.flops / point.bytes;
  const rate = (point) => point.flops / point.time_s;
  const ridge = peak / memory;
  const left = decade(Math.min(ridge / 10, ...all.map(intensity)), Math.floor);
  const right = decade(Math.max(ridge * 10, ...all.map(intensity)), Math.ceil);
  const bottom = decade(Math.min(...all.map(rate), left * memory), Math.floor);
  const top = decade(Math.max(peak, ...all.map(rate)), Math.ceil);
  const isNarrow = width < NARROW;
  const named = all.slice(0, NAMED).map((point) => ({ name: point.name, value: [intensity(point), rate(point)] }));
  const base = baseOption(theme);
  const axis = (name, gap, labels) => ({
    ...valueAxis(theme, name), type: 'log', nameGap: gap,
    axisLabel: { color: theme.muted, fontSize: 12, formatter: labels, hideOverlap: true },
  });
  return {
    ...base,
    grid: { left: 96, right: isNarrow ? 24 : NAMES_WIDTH, top: 24, bottom: 52 },
    xAxis: { ...axis('operations per byte of memory traffic', 30, power), min: left, max: right },
    yAxis: { ...axis('rate', 80, formatFlops), min: bottom, max: top },
    tooltip: {
      ...base.tooltip,
      formatter: ({ data: { point } }) => point && tooltipRows(point.name, [
        [null, 'time', `${formatSeconds(point.time_s)}, ${formatPercent(point.time_s / time)} of these`],
        [null, 'calls', formatCount(point.calls)],
        [null, 'rate', `${formatFlops(rate(point))}, ${formatPercent(rate(point) / peak)} of the peak`],
        [null, 'operations per byte', formatNumber(intensity(point))],
        [null, 'memory traffic', formatTraffic(point.bytes)],
      ]),
    },
    series: [
      {
        type: 'line',
        name: 'roof',
        symbol: 'none',
        silent: true,
        lineStyle: { color: theme.ink, width: 2 },
        data: [[left, Math.max(left * memory, bottom)], [ridge, peak], [right, peak]],
        markLine: {
          silent: true,
          symbol: 'none',
          lineStyle: { opacity: 0 },
          label: { color: theme.muted, position: 'insideEndTop', formatter: `peak ${formatFlops(peak)}` },
          data: [{ yAxis: peak }],
        },
      },
      {
        type: 'scatter',
        name: 'operations',
        symbolSize: (_, { data: { point } }) => 8 + 34 * Math.sqrt(point.time_s / time),
        itemStyle: { opacity: 0.8, borderColor: theme.card },
        data: all.map((point, i) => ({
          value: [intensity(point), rate(point)], point, itemStyle: { color: colorOf(theme, i) },
        })),
      },
      {
        type: 'custom',
        name: 'names',
        silent: true,
        renderItem: (params, api) => (isNarrow ? undefined : namesOf(params, api, named, theme)),
        clip: false,
        data: named.slice(0, 1).map(({ value }) => value),
      },
    ],
  };
}
