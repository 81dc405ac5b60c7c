// Memory in use through the step, of one stage at a time.
import { baseOption, limitLine, tooltipRows, valueAxis } from '../base.js';
import { formatCount, formatMemory, formatSeconds, memoryUnit, secondsUnit, shortNumber } from '../units.js';

const total = (curve, i) => curve.bytes.reduce((sum, category) => sum + category[i], 0);
const peak = (curve) => curve.time_ns.reduce((most, _, i) => Math.max(most, total(curve, i)), 0);

// Points nearer than this are drawn askew, and nobody sees them apart.
const PIXELS = 2;

/**
 * The fullest moment of each `PIXELS` of `width`, as [time_ns, index into the curve].
 * Where nothing changes there is nothing; the end repeats the last.
 */
function thin(curve, span, width) {
  const columns = Math.max(1, Math.floor(width / PIXELS));
  const begin = curve.time_ns[0];
  const kept = [];
  let next = 0;
  for (let column = 0; column < columns; ++column) {
    const end = begin + ((column + 1) * span) / columns;
    const first = next;
    while (next < curve.time_ns.length && (curve.time_ns[next] <= end || column === columns - 1)) ++next;
    let fullest = next === first ? next - 1 : first;
    for (let i = first; i < next; ++i) if (total(curve, i) > total(curve, fullest)) fullest = i;
    if (fullest !== kept.at(-1)?.[1]) kept.push([begin + (column * span) / columns, fullest]);
  }
  kept.push([begin + span, curve.time_ns.length - 1]);
  return kept;
}

export { key } from './memory.js';
export const rows = ({ detail }) => detail.memory.length;
export const height = () => 330;

/** The choice of a stage: the fullest first. */
export const choices = ({ detail }) => {
  const peaks = detail.memory.map(peak);
  return {
    label: 'Stage',
    names: detail.memory.map((curve, i) => `stage ${curve.stage} (rank ${formatCount(curve.rank)}), peak ${formatMemory(peaks[i])}`),
    first: peaks.indexOf(Math.max(...peaks)),
  };
};

export function option({ detail }, theme, width, choice) {
  const curve = detail.memory[choice];
  const begin = curve.time_ns[0];
  const span = curve.time_ns[curve.time_ns.length - 1] - begin;
  const time = secondsUnit(span / 1e9);
  const device = detail.device_memory_bytes;
  const memory = memoryUnit(Math.max(device, peak(curve)));
  const at = (i) => curve.time_ns[i] / 1e9;
  const points = thin(curve, span, width - 72);
  const names = detail.memory_categories;
  const base = baseOption(theme);
  const series = names.map((name, c) => ({
    type: 'line',
    name,
    stack: 'all',
    step: 'end',
    symbol: 'none',
    lineStyle: { width: 0 },
    areaStyle: { color: theme.memory[c], opacity: 1 },
    itemStyle: { color: theme.memory[c] },
    emphasis: { disabled: true },
    data: points.map(([ns, i]) => [ns / 1e9 / time.scale, curve.bytes[c][i] / memory.scale]),
  }));
  if (device > 0) {
    series[0].markLine = limitLine(
      theme, `device: ${formatMemory(device)}`, { position: 'insideEndTop' }, { yAxis: device / memory.scale });
  }
  return {
    ...base,
    grid: { left: 56, right: 16, top: 10, bottom: 44 },
    xAxis: {
      ...valueAxis(theme, `time since the step began, ${time.name}`),
      splitLine: { show: false },
      min: at(0) / time.scale,
      max: at(curve.time_ns.length - 1) / time.scale,
      axisLabel: { color: theme.muted, formatter: shortNumber, showMinLabel: at(0) === 0, showMaxLabel: false },
    },
    yAxis: {
      ...valueAxis(theme, memory.name),
      nameGap: 38,
      max: (extent) => Math.max(extent.max, device / memory.scale) * 1.1,
      axisLabel: { color: theme.muted, formatter: shortNumber, showMaxLabel: false },
    },
    tooltip: {
      ...base.tooltip,
      trigger: 'axis',
      formatter: ([{ dataIndex }]) => {
        const [, i] = points[dataIndex];
        return tooltipRows(`${formatSeconds(at(i))}: ${formatMemory(total(curve, i))}`, names.map((name, c) => [
          theme.memory[c], name, formatMemory(curve.bytes[c][i]),
        ]).reverse());
      },
    },
    series,
  };
}
