// What all charts have in common. Text in tooltips is HTML, so names of ours go through `escape`.

export const escape = (text) =>
  String(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Text that fits `width` pixels at the size of labels, about. */
export const clip = (text, width) => {
  const most = Math.max(3, Math.floor(width / 6.5));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

/** Rows of a tooltip: [colour or null, name, value]. */
export function tooltipRows(title, rows) {
  const line = ([color, name, value]) =>
    `<div class="tip-row"><i${color ? ` style="background:${color}"` : ''}></i>` +
    `<span>${escape(name)}</span><b>${escape(value)}</b></div>`;
  return `<div class="tip"><strong>${escape(title)}</strong>${rows.map(line).join('')}</div>`;
}

/** The option that every chart starts from. */
export function baseOption(theme) {
  return {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: theme.font, color: theme.ink },
    tooltip: {
      confine: true,
      backgroundColor: theme.card,
      borderColor: theme.line,
      textStyle: { color: theme.ink, fontSize: 13 },
    },
  };
}

export const legend = (theme, names) => ({
  type: 'scroll',
  top: 0,
  left: 0,
  itemWidth: 14,
  itemHeight: 10,
  data: names,
  textStyle: { color: theme.ink, fontSize: 12 },
  pageTextStyle: { color: theme.muted },
  pageIconColor: theme.ink,
  pageIconInactiveColor: theme.line,
});

export const valueAxis = (theme, name) => ({
  type: 'value',
  name,
  nameLocation: 'middle',
  nameGap: 28,
  nameTextStyle: { color: theme.muted, fontSize: 12 },
  axisLabel: { color: theme.muted, fontSize: 12, hideOverlap: true },
  axisLine: { show: false },
  axisTick: { show: false },
  splitLine: { lineStyle: { color: theme.line } },
});

export const categoryAxis = (theme, names) => ({
  type: 'category',
  data: names,
  inverse: true,
  axisLabel: { color: theme.ink, fontSize: 12 },
  axisLine: { lineStyle: { color: theme.line } },
  axisTick: { show: false },
});

/** Horizontal bars, one part of each stacked on the other, with the share written where it fits. */
export function stackedBars(parts, names, width) {
  const totals = names.map((_, row) => parts.reduce((sum, part) => sum + part.values[row], 0));
  const longest = Math.max(...totals, 0);
  return parts.map((part) => ({
    type: 'bar',
    name: part.name,
    stack: 'all',
    barMaxWidth: 30,
    itemStyle: { color: part.color, borderColor: part.border, borderWidth: 0.5 },
    emphasis: { focus: 'none' },
    label: {
      show: true,
      color: part.ink,
      fontSize: 11,
      formatter: ({ dataIndex }) => {
        const value = part.values[dataIndex];
        const share = totals[dataIndex] > 0 ? value / totals[dataIndex] : 0;
        return longest > 0 && (value / longest) * width > 44 ? `${Math.round(100 * share)} %` : '';
      },
    },
    data: part.values,
  }));
}
