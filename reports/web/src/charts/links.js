// How busy the links of each tier are: the share of the step that the busiest part would need to
// send what it sends at full bandwidth.
import { baseOption, categoryAxis, tooltipRows, valueAxis } from '../base.js';
import { formatNumber, formatPercent, formatTraffic, groupDigits, shortNumber } from '../units.js';

export const rows = ({ detail }) => detail.links.length;
export const height = (data) => 76 + 40 * rows(data);

export function option({ detail }, theme) {
  const { links } = detail;
  const shares = links.map((link) => 100 * link.busiest_share);
  const largest = Math.max(...shares, 100);
  const base = baseOption(theme);
  return {
    ...base,
    grid: { left: 112, right: 64, top: 10, bottom: 44 },
    xAxis: {
      ...valueAxis(theme, 'share of the step at full bandwidth, %'),
      min: 0,
      max: largest,
      axisLabel: { color: theme.muted, formatter: shortNumber },
    },
    yAxis: categoryAxis(theme, links.map((link) => link.tier), 102),
    tooltip: {
      ...base.tooltip,
      formatter: ({ dataIndex: i }) => tooltipRows(links[i].tier, [
        [null, 'busiest', groupDigits(links[i].busiest)],
        [null, 'share of the step', formatPercent(links[i].busiest_share)],
        [null, 'sent, all ranks', formatTraffic(links[i].bytes)],
        [null, 'bandwidth of a GPU', `${formatNumber(links[i].bandwidth_gb_per_s)} GB/s`],
      ]),
    },
    series: [{
      type: 'bar',
      barMaxWidth: 26,
      itemStyle: { color: theme.time[1] },
      label: { show: true, position: 'right', color: theme.ink, formatter: ({ dataIndex: i }) => `${shares[i].toFixed(1)} %` },
      data: shares,
    }],
  };
}
