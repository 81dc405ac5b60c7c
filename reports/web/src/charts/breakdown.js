// Where the step goes: the rank that ends last, then one rank of each pipeline stage.
import { baseOption, categoryAxis, endOfBars, groupName, keyOf, stackedBars, tooltipRows, valueAxis } from '../base.js';
import { formatCount, formatPercent, formatSeconds, secondsUnit, shortNumber } from '../units.js';

const PARTS = [
  ['computing', 'time.compute_s', 'compute_s'],
  ['waiting for communication', 'time.exposed_comm_s', 'exposed_comm_s'],
  ['pipeline bubble and idle', 'time.bubble_s', 'bubble_s'],
  ['waiting for the host', 'time.host_s', 'host_s'],
];

export const rows = (data) => 1 + stagesOf(data).length;
export const height = (data) => 70 + 32 * Math.min(rows(data), 64);

/** Stages that look alike are one row, with the numbers of the first: {stage, name}. */
const stagesOf = ({ detail }) => (detail.stages.length > 1
  ? detail.stages_by_time.map((group) => ({ ...detail.stages[group[0]], name: groupName(group, detail.stages) }))
  : []);
const unitOf = ({ result }) => secondsUnit(result.metrics.step_time_s ?? 0);

function partsOf(data, theme) {
  const unit = unitOf(data);
  return PARTS.map(([name, metric, member], i) => ({
    name,
    color: theme.time[i],
    border: theme.card,
    ink: theme.onTime[i],
    seconds: [data.result.metrics[metric] ?? 0, ...stagesOf(data).map((stage) => stage[member])],
  })).filter((part) => part.seconds.some((seconds) => seconds > 0))
    .map((part) => ({ ...part, values: part.seconds.map((seconds) => seconds / unit.scale) }));
}

export const key = (data, theme) => keyOf(partsOf(data, theme));

export function option(data, theme, width) {
  const stages = stagesOf(data);
  const names = ['whole step', ...stages.map((stage) => stage.name)];
  const unit = unitOf(data);
  const parts = partsOf(data, theme);
  const total = (row) => parts.reduce((sum, part) => sum + part.seconds[row], 0);
  const end = endOfBars(parts, names);
  const base = baseOption(theme);
  return {
    ...base,
    grid: { left: 104, right: 16, top: 8, bottom: 44 },
    xAxis: { ...valueAxis(theme, `time of one step, ${unit.name}`), max: end || undefined, axisLabel: { color: theme.muted, formatter: shortNumber, showMaxLabel: false } },
    yAxis: categoryAxis(theme, names, 94),
    tooltip: {
      ...base.tooltip,
      trigger: 'axis',
      axisPointer: { type: 'shadow' },
      formatter: ([{ dataIndex: row }]) =>
        tooltipRows(names[row] + (row > 0 ? ` (rank ${formatCount(stages[row - 1].rank)})` : ''), parts.map((part) => [
          part.color, part.name,
          `${formatSeconds(part.seconds[row])}, ${formatPercent(part.seconds[row] / total(row))}`,
        ])),
    },
    series: stackedBars(parts, names, width - 120, end),
  };
}
