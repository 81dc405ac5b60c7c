// Who sends how much to whom in one step: senders down, receivers across. Sizes differ by powers of
// ten, so colours are of their logarithm, and pairs that exchange nothing are blank.
import { baseOption, tooltipRows } from '../base.js';
import { formatCount, formatTraffic } from '../units.js';

export const rows = ({ detail }) => detail.traffic.cells;
const LEFT = 64;
const TOP = 40;
const sideOf = (width) => Math.max(120, Math.min(540, width - LEFT - 8));

export const height = (_, width) => TOP + sideOf(width) + 50;
export const items = ({ detail }) => detail.traffic.bytes.filter((bytes) => bytes > 0).length;

const cellName = (cell, per, ranks) => {
  const last = Math.min((cell + 1) * per, ranks) - 1;
  return per === 1 ? formatCount(cell) : `${formatCount(cell * per)}-${formatCount(last)}`;
};

/** Every how many cells there is room for a label: a power of two, as ranks are laid out. */
function labelStep(cells, side) {
  let step = 1;
  while (step < cells && (side / cells) * step < 30) step *= 2;
  return step;
}

export function option({ detail, result }, theme, width) {
  const { cells, steps, ranks_per_cell: per } = detail.traffic;
  const bytes = detail.traffic.bytes.map((sent) => sent / steps);
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
  const side = sideOf(width);
  const step = labelStep(cells, side);
  const axis = (name, gap) => ({
    type: 'category', data: names, name, nameLocation: 'middle', nameGap: gap,
    nameTextStyle: { color: theme.muted, fontSize: 12 },
    axisLabel: { color: theme.muted, fontSize: 11, interval: step - 1, formatter: (ranks) => ranks.split('-')[0] },
    axisTick: { show: false },
    axisLine: { lineStyle: { color: theme.line } },
    splitArea: { show: false },
  });
  return {
    ...base,
    grid: { left: LEFT, top: TOP, width: side, height: side },
    xAxis: { ...axis('receiving rank', 24), position: 'top' },
    yAxis: { ...axis('sending rank', 46), inverse: true },
    visualMap: {
      type: 'continuous',
      min: least === most ? most - 1 : least,
      max: most,
      calculable: false,
      orient: 'horizontal',
      left: LEFT,
      top: TOP + side + 16,
      itemWidth: 14,
      itemHeight: Math.max(40, Math.min(200, side - 130)),
      precision: 2,
      text: [formatTraffic(10 ** most), formatTraffic(10 ** least)],
      textGap: 8,
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
