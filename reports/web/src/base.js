// What all charts have in common. Text in tooltips is HTML, so names of ours go through `escape`.

import { apportion } from './units.js';

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

/** A dashed line with what it stands for, across a chart; `data` says where. */
export const limitLine = (theme, text, label, data) => ({
  silent: true,
  symbol: 'none',
  lineStyle: { color: theme.alarm, type: 'dashed', width: 1.5 },
  label: { formatter: text, color: theme.alarm, fontSize: 12, ...label },
  data: [data],
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
  splitLine: { showMaxLine: false, lineStyle: { color: theme.line } },
});

/** `room`: pixels for the names; what is longer is clipped. */
export const categoryAxis = (theme, names, room) => ({
  type: 'category',
  data: names,
  inverse: true,
  axisLabel: { color: theme.ink, fontSize: 12, formatter: (name) => clip(name, room) },
  axisLine: { lineStyle: { color: theme.line } },
  axisTick: { show: false },
});

/** "stage 0", "stages 1 to 6": [first, last] of the stages that are one row. */
export const groupName = ([first, last], stages) => (first === last
  ? `stage ${stages[first].stage}`
  : `stages ${stages[first].stage} to ${stages[last].stage}`);

const rowsOf = (parts, names) => names.map((_, row) => parts.map((part) => part.values[row]));

/** Where the axis of stacked bars ends: a little behind the longest. */
export const endOfBars = (parts, names) =>
  1.02 * Math.max(...rowsOf(parts, names).map((values) => values.reduce((sum, value) => sum + value, 0)), 0);

/**
 * Horizontal bars, one part of each stacked on the other, with the share written where it fits. The
 * axis ends at `end`, and is `width` pixels long.
 */
export function stackedBars(parts, names, width, end) {
  const rows = rowsOf(parts, names);
  const percents = rows.map((values) => apportion(values, 100));
  return parts.map((part, i) => ({
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
        const isWide = end > 0 && (part.values[dataIndex] / end) * width > 36;
        return isWide ? `${percents[dataIndex][i]} %` : '';
      },
    },
    data: part.values,
  }));
}

/** What the colours of parts mean, for the page's own legend. */
export const keyOf = (parts) => parts.map((part) => [part.color, part.name]);
