// Numbers as parts of a chart, in percent of its width or height.

export interface Column {
  left: number;
  width: number;
  share: number;
}

const fewestColumns = 14;
const filled = 0.75;

/** Return each value in percent of the largest; zeros if all are 0. */
export function shares(values: readonly number[]): number[] {
  const most = Math.max(0, ...values);
  return values.map((value) => (most === 0 ? 0 : (value / most) * 100));
}

/** Return the place of each column, the last one at the right edge; a few are no wider than 14 would be. */
export function columns(values: readonly number[]): Column[] {
  const count = Math.max(fewestColumns, values.length);
  const step = 100 / count;
  const skipped = count - values.length;
  return shares(values).map((share, index) => ({ left: (skipped + index + 1 - filled) * step, width: step * filled, share }));
}
