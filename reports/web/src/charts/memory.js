// Memory of the fullest rank of each stage, at its peak, against what a device has.
import { baseOption, categoryAxis, legend, stackedBars, tooltipRows, valueAxis } from '../base.js';
import { formatMemory, memoryUnit, shortNumber } from '../units.js';

export const rows = ({ detail }) => detail.stages.length;
export const height = (data) => 96 + 32 * Math.min(rows(data), 64);

export function option({ detail }, theme, width) {
  const { stages } = detail;
  const device = detail.device_memory_bytes;
  const largest = Math.max(device, ...stages.map((stage) => stage.peak_bytes));
  const unit = memoryUnit(largest);
  const parts = detail.memory_categories.map((name, i) => ({
    name,
    color: theme.memory[i],
    border: theme.card,
    ink: theme.onMemory[i],
    values: stages.map((stage) => stage.at_peak[i] / unit.scale),
  }));
  const names = stages.map((stage) => (stages.length > 1 ? `stage ${stage.stage}` : 'fullest rank'));
  const base = baseOption(theme);
  const series = stackedBars(parts, names, width - 100);
  if (device > 0) series[0].markLine = deviceLine(device / unit.scale, device, theme);
  return {
    ...base,
    legend: legend(theme, parts.map((part) => part.name)),
    grid: { left: 84, right: 24, top: 52, bottom: 44 },
    xAxis: {
      ...valueAxis(theme, `memory at the peak, ${unit.name}`),
      max: largest * 1.02 / unit.scale,
      axisLabel: { color: theme.muted, formatter: shortNumber, showMaxLabel: false },
    },
    yAxis: categoryAxis(theme, names),
    tooltip: {
      ...base.tooltip,
      trigger: 'axis',
      axisPointer: { type: 'shadow' },
      formatter: ([{ dataIndex: row }]) =>
        tooltipRows(`${names[row]}: ${formatMemory(stages[row].peak_bytes)}`, parts.map((part, i) => [
          part.color, part.name, formatMemory(stages[row].at_peak[i]),
        ])),
    },
    series,
  };
}

const deviceLine = (at, bytes, theme) => ({
  silent: true,
  symbol: 'none',
  lineStyle: { color: theme.alarm, type: 'dashed', width: 1.5 },
  label: { formatter: `device: ${formatMemory(bytes)}`, color: theme.alarm, position: 'insideEndTop', align: 'right', rotate: 0, offset: [0, -4] },
  data: [{ xAxis: at }],
});
