// Communication of each axis of parallelism: what the step waits for, and what computing hides.
import { baseOption, categoryAxis, endOfBars, keyOf, stackedBars, tooltipRows, valueAxis } from '../base.js';
import { formatSeconds, formatTraffic, secondsUnit, shortNumber } from '../units.js';

export const rows = ({ detail }) => detail.axes.length;
export const height = (data) => 70 + 36 * rows(data);

const unitOf = (axes) => secondsUnit(Math.max(...axes.map((axis) => axis.exposed_s + axis.hidden_s)));

function partsOf({ axes }, theme) {
  const part = (name, member, color, ink) => ({
    name, color, ink, border: theme.card, values: axes.map((axis) => axis[member] / unitOf(axes).scale),
  });
  return [
    part('exposed: the step waits', 'exposed_s', theme.time[1], theme.onTime[1]),
    part('hidden behind computing', 'hidden_s', theme.hidden, theme.onHidden),
  ];
}

export const key = ({ detail }, theme) => keyOf(partsOf(detail, theme));

export function option({ detail }, theme, width) {
  const { axes } = detail;
  const unit = unitOf(axes);
  const parts = partsOf(detail, theme);
  const names = axes.map((axis) => axis.axis);
  const end = endOfBars(parts, names);
  const base = baseOption(theme);
  return {
    ...base,
    grid: { left: 84, right: 16, top: 8, bottom: 44 },
    xAxis: { ...valueAxis(theme, `communication of one step, ${unit.name}`), max: end || undefined, axisLabel: { color: theme.muted, formatter: shortNumber, showMaxLabel: false } },
    yAxis: categoryAxis(theme, names, 74),
    tooltip: {
      ...base.tooltip,
      trigger: 'axis',
      axisPointer: { type: 'shadow' },
      formatter: ([{ dataIndex: row }]) => tooltipRows(names[row], [
        [parts[0].color, 'exposed', formatSeconds(axes[row].exposed_s)],
        [parts[1].color, 'hidden', formatSeconds(axes[row].hidden_s)],
        [null, 'sent, all ranks', formatTraffic(axes[row].bytes_sent)],
      ]),
    },
    series: stackedBars(parts, names, width - 100, end),
  };
}
