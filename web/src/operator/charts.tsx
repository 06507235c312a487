// Charts as SVG, each with its numbers in a table that opens below it.
import { DataTable } from "../components/data-table.tsx";
import { formatNumber, texts } from "../texts.ts";
import { columns, shares } from "./scales.ts";

export interface Bar {
  name: string;
  value: number;
}

/** Horizontal bars with their names and values. */
export function BarChart({ label, unit, bars }: { label: string; unit: string; bars: readonly Bar[] }) {
  const widths = shares(bars.map((bar) => bar.value));
  return (
    <figure className="chart">
      <svg role="img" aria-label={texts.chartOf(label)} width="100%" height={bars.length * rowHeight}>
        {bars.map((bar, index) => (
          <g key={bar.name} transform={`translate(0 ${index * rowHeight})`}>
            <text x="0" y="15">
              {bar.name}
            </text>
            <text x="100%" y="15" textAnchor="end">
              {formatNumber(bar.value)}
            </text>
            <rect className="rail" x="0" y="21" width="100%" height="8" rx="4" />
            <rect className="bar" x="0" y="21" width={`${widths[index]}%`} height="8" rx="4" />
          </g>
        ))}
      </svg>
      <Numbers label={label} head={[label, unit]} rows={bars.map((bar) => [bar.name, formatNumber(bar.value)])} />
    </figure>
  );
}

const rowHeight = 40;
const columnHeight = 96;

/** One column for each day; the numbers of the first and the last day stand below. */
export function ColumnChart({ label, unit, bars }: { label: string; unit: string; bars: readonly Bar[] }) {
  const places = columns(bars.map((bar) => bar.value));
  const [first, last] = [bars[0], bars.at(-1)];
  return (
    <figure className="chart">
      <svg role="img" aria-label={texts.chartOf(label)} width="100%" height={columnHeight}>
        <line className="axis" x1="0" x2="100%" y1={columnHeight - 1} y2={columnHeight - 1} />
        {places.map((place, index) => {
          const height = Math.max(2, (place.share / 100) * (columnHeight - 4));
          return (
            <rect key={bars[index]?.name} className="bar" x={`${place.left}%`} width={`${place.width}%`} y={columnHeight - 1 - height} height={height} rx="2">
              <title>{`${bars[index]?.name}: ${formatNumber(bars[index]?.value ?? 0)}`}</title>
            </rect>
          );
        })}
      </svg>
      {first === undefined || last === undefined ? null : (
        <figcaption className="quiet">
          <span>{bars.length === 1 ? "" : `${first.name}: ${formatNumber(first.value)}`}</span>
          <span>{`${last.name}: ${formatNumber(last.value)} ${unit}`}</span>
        </figcaption>
      )}
    </figure>
  );
}

/** The numbers of a chart, folded. */
export function Numbers({ label, head, rows }: { label: string; head: readonly string[]; rows: readonly (readonly string[])[] }) {
  return (
    <details className="numbers">
      <summary>{texts.asTable}</summary>
      <DataTable label={label} head={head} rows={rows.map((cells) => ({ key: cells[0] ?? "", cells }))} />
    </details>
  );
}
