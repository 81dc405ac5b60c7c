// Operations against what the device can do: how many operations a byte of memory traffic feeds,
// and the rate that comes of it. Both axes are logarithmic; the area of a point is its time.
import { baseOption, tooltipRows, valueAxis } from '../base.js';
import { formatFlops, formatNumber, formatPercent, formatSeconds, formatTraffic } from '../units.js';

const points = ({ detail }) =>
  detail.roofline.points.filter((point) => point.flops > 0 && point.bytes > 0 && point.time_s > 0);
const decade = (value, round) => 10 ** round(Math.log10(value));
const power = (value) => {
  const exponent = Math.round(Math.log10(value));
  return exponent >= -2 && exponent <= 3 ? String(Number((10 ** exponent).toPrecision(1))) : `1e${exponent}`;
};

export const rows = (data) => points(data).length;
export const height = () => 420;

export function option(data, theme, width) {
  const { peak_flops_per_s: peak, memory_bytes_per_s: memory } = data.detail.roofline;
  const all = points(data);
  const time = all.reduce((sum, point) => sum + point.time_s, 0);
  const intensity = (point) => point.flops / point.bytes;
  const rate = (point) => point.flops / point.time_s;
  const ridge = peak / memory;
  const left = decade(Math.min(ridge / 10, ...all.map(intensity)), Math.floor);
  const right = decade(Math.max(ridge * 10, ...all.map(intensity)), Math.ceil);
  const bottom = decade(Math.min(...all.map(rate), left * memory), Math.floor);
  const top = decade(Math.max(peak, ...all.map(rate)), Math.ceil);
  const named = new Set([...all].sort((a, b) => b.time_s - a.time_s).slice(0, width < 560 ? 3 : 6).map((point) => point.name));
  const base = baseOption(theme);
  const axis = (name, gap, labels) => ({
    ...valueAxis(theme, name), type: 'log', nameGap: gap,
    axisLabel: { color: theme.muted, fontSize: 12, formatter: labels, hideOverlap: true },
  });
  return {
    ...base,
    grid: { left: 96, right: 24, top: 24, bottom: 52 },
    xAxis: { ...axis('operations per byte of memory traffic', 30, power), min: left, max: right },
    yAxis: { ...axis('rate', 80, formatFlops), min: bottom, max: top },
    tooltip: {
      ...base.tooltip,
      formatter: ({ data: { point } }) => point && tooltipRows(point.name, [
        [null, 'time', `${formatSeconds(point.time_s)}, ${formatPercent(point.time_s / time)} of these`],
        [null, 'calls', String(point.calls)],
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
        itemStyle: { color: theme.time[0], opacity: 0.75, borderColor: theme.card },
        labelLayout: { moveOverlap: 'shiftY', hideOverlap: true },
        label: {
          show: true, position: 'right', color: theme.ink, fontSize: 11,
          formatter: ({ data: { point } }) => (named.has(point.name) ? point.name : ''),
        },
        data: all.map((point) => ({ value: [intensity(point), rate(point)], point })),
      },
    ],
  };
}
