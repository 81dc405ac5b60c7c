// Who sends how much to whom in one step: senders down, receivers across. Sizes differ by powers of
// ten, so colours are of their logarithm, and pairs that exchange nothing are blank.
import { baseOption, tooltipRows } from '../base.js';
import { formatTraffic } from '../units.js';

export const rows = ({ detail }) => detail.traffic.cells;
export const height = (_, width) => Math.min(620, width) + 40;
export const items = ({ detail }) => detail.traffic.bytes.filter((bytes) => bytes > 0).length;

const cellName = (cell, per, ranks) => {
  const last = Math.min((cell + 1) * per, ranks) - 1;
  return per === 1 ? `${cell}` : `${cell * per}-${last}`;
};

export function option({ detail, result }, theme, width) {
  const { cells, bytes, ranks_per_cell: per } = detail.traffic;
  const ranks = result.metrics.ranks ?? cells * per;
  const names = Array.from({ length: cells }, (_, cell) => cellName(cell, per, ranks));
  const data = [];
  bytes.forEach((sent, i) => {
    if (sent > 0) data.push([i % cells, Math.floor(i / cells), Math.log10(sent)]);
  });
  const sizes = data.map(([, , size]) => size);
  const most = sizes.reduce((a, b) => Math.max(a, b), 0);
  const least = sizes.reduce((a, b) => Math.min(a, b), most);
  const base = baseOption(theme);
  const side = Math.min(620, width) - 136;
  const axis = (name, gap) => ({
    type: 'category', data: names, name, nameLocation: 'middle', nameGap: gap,
    nameTextStyle: { color: theme.muted, fontSize: 12 },
    axisLabel: { color: theme.muted, fontSize: 11, hideOverlap: true },
    axisTick: { show: false },
    axisLine: { lineStyle: { color: theme.line } },
    splitArea: { show: false },
  });
  return {
    ...base,
    grid: { left: 64, top: 40, width: side, height: side },
    xAxis: { ...axis('receiving rank', 24), position: 'top' },
    yAxis: { ...axis('sending rank', 46), inverse: true },
    visualMap: {
      type: 'continuous',
      min: least === most ? most - 1 : least,
      max: most,
      calculable: true,
      orient: 'horizontal',
      left: 64,
      top: side + 52,
      itemWidth: 14,
      itemHeight: Math.min(180, side - 130),
      precision: 2,
      text: [formatTraffic(10 ** most), formatTraffic(10 ** least)],
      formatter: (size) => formatTraffic(10 ** size),
      inRange: { color: theme.heat },
      textStyle: { color: theme.muted, fontSize: 12 },
    },
    tooltip: {
      ...base.tooltip,
      formatter: ({ value: [to, from] }) => tooltipRows(`rank ${names[from]} to ${names[to]}`, [
        [null, 'payload', formatTraffic(bytes[from * cells + to])],
      ]),
    },
    series: [{
      type: 'heatmap',
      data,
      progressive: 0,
      itemStyle: { borderColor: theme.card, borderWidth: side / cells > 6 ? 1 : 0 },
      emphasis: { itemStyle: { borderColor: theme.ink, borderWidth: 1 } },
    }],
  };
}
