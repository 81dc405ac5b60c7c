// Numbers for people, as reports/units.cpp writes them: three significant digits and the unit in
// which they are short.

const THOUSANDS = /\B(?=(\d{3})+$)/g;

export function formatCount(count) {
  return String(count).replace(THOUSANDS, ',');
}

/** "rank 1,024": whole numbers in our words. */
export const groupDigits = (words) => words.replace(/\b\d{4,}\b/g, formatCount);

export function formatNumber(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const rounded = Number(value.toExponential(2));
  const size = Math.abs(rounded);
  if (size < 0.01 || size >= 1e15) return rounded.toExponential(2);
  if (size < 1) return rounded.toFixed(3);
  if (size < 10) return rounded.toFixed(2);
  if (size < 100) return rounded.toFixed(1);
  return formatCount(rounded.toFixed(0));
}

function withUnit(value, step, units) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(Number(value.toExponential(2))) >= 1000) {
    value /= step;
    ++unit;
  }
  return `${formatNumber(value)} ${units[unit]}`;
}

export function formatSeconds(seconds) {
  if (seconds === 0) return '0 s';
  if (Math.abs(Number(seconds.toExponential(2))) >= 1) return `${formatNumber(seconds)} s`;
  return withUnit(seconds * 1e12, 1000, ['ps', 'ns', 'us', 'ms']);
}

export const formatMemory = (bytes) => withUnit(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
export const formatTraffic = (bytes) => withUnit(bytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
export const formatPercent = (share) => `${(100 * share).toFixed(1)} %`;
export const formatFlops = (rate) =>
  withUnit(rate, 1000, ['FLOP/s', 'kFLOP/s', 'MFLOP/s', 'GFLOP/s', 'TFLOP/s', 'PFLOP/s']);

/** Splits `total` whole units in proportion to `values`, so that rounded shares add up. */
export function apportion(values, total) {
  const sum = values.reduce((a, b) => a + b, 0);
  if (!(sum > 0)) return values.map(() => 0);
  const exact = values.map((value) => (value / sum) * total);
  const parts = exact.map(Math.floor);
  const left = total - parts.reduce((a, b) => a + b, 0);
  const order = exact.map((value, i) => [value - parts[i], i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  for (const [, i] of order.slice(0, left)) ++parts[i];
  return parts;
}

/** Ticks of an axis: as short as they can be, so 200 and not 200.0. */
export const shortNumber = (value) => {
  const short = String(Number(value.toPrecision(3)));
  return short.includes('.') || short.includes('e') ? short : formatCount(short);
};

/** A unit that suits all of an axis up to `largest`: {scale, name}. */
export function axisUnit(largest, step, names) {
  let scale = 1;
  let unit = 0;
  while (unit + 1 < names.length && largest / scale >= step) {
    scale *= step;
    ++unit;
  }
  return { scale, name: names[unit] };
}

export const secondsUnit = (largest) => {
  const unit = axisUnit(largest * 1e12, 1000, ['ps', 'ns', 'us', 'ms', 's']);
  return { scale: unit.scale / 1e12, name: unit.name };
};
export const memoryUnit = (largest) => axisUnit(largest, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
export const trafficUnit = (largest) => axisUnit(largest, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
