// Memory of the fullest rank of each stage, at its peak, against what a device has.
import { baseOption, categoryAxis, groupName, limitLine, stackedBars, tooltipRows, valueAxis } from '../base.js';
import { formatMemory, memoryUnit, shortNumber } from '../units.js';

export const rows = ({ detail }) => detail.stages_by_memory.length;
export const height = (data) => 92 + 32 * Math.min(rows(data), 64);

export const key = ({ detail }, theme) => detail.memory_categories.map((name, i) => [theme.memory[i], name]);

export function option({ detail }, theme, width) {
  const groups = detail.stages_by_memory;
  const stages = groups.map(([first]) => detail.stages[first]);
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
  const names = groups.map((group) => (detail.stages.length > 1 ? groupName(group, detail.stages) : 'fullest rank'));
  const base = baseOption(theme);
  const end = (largest * 1.02) / unit.scale;
  const series = stackedBars(parts, names, width - 128, end);
  if (device > 0) {
    series[0].markLine = limitLine(
      theme, `device: ${formatMemory(device)}`, { position: 'start', align: 'right', distance: [0, 8] }, { xAxis: device / unit.scale });
  }
  return {
    ...base,
    grid: { left: 104, right: 24, top: device > 0 ? 28 : 8, bottom: 44 },
    xAxis: {
      ...valueAxis(theme, `memory at the peak, ${unit.name}`),
      max: end,
      axisLabel: { color: theme.muted, formatter: shortNumber, showMaxLabel: false },
    },
    yAxis: categoryAxis(theme, names, 94),
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
