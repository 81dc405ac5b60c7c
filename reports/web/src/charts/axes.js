// Communication of each axis of parallelism: what the step waits for, and what computing hides.
import { baseOption, categoryAxis, legend, stackedBars, tooltipRows, valueAxis } from '../base.js';
import { formatSeconds, formatTraffic, secondsUnit, shortNumber } from '../units.js';

export const rows = ({ detail }) => detail.axes.length;
export const height = (data) => 96 + 36 * rows(data);

export function option({ detail }, theme, width) {
  const { axes } = detail;
  const unit = secondsUnit(Math.max(...axes.map((axis) => axis.exposed_s + axis.hidden_s)));
  const part = (name, member, color, ink) => ({
    name, color, ink, border: theme.card, values: axes.map((axis) => axis[member] / unit.scale),
  });
  const parts = [
    part('exposed: the step waits', 'exposed_s', theme.time[1], theme.onTime[1]),
    part('hidden behind computing', 'hidden_s', theme.hidden, theme.onHidden),
  ];
  const names = axes.map((axis) => axis.axis);
  const base = baseOption(theme);
  return {
    ...base,
    legend: legend(theme, parts.map((each) => each.name)),
    grid: { left: 84, right: 16, top: 34, bottom: 44 },
    xAxis: { ...valueAxis(theme, `communication of one step, ${unit.name}`), axisLabel: { color: theme.muted, formatter: shortNumber } },
    yAxis: categoryAxis(theme, names),
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
    series: stackedBars(parts, names, width - 100),
  };
}
