// A table that scrolls in its own frame; on a phone each row is a card that names its cells.
import type { ReactNode } from "react";

interface DataTableProps {
  label: string;
  head: readonly string[];
  rows: readonly { key: string; cells: readonly ReactNode[] }[];
}

/** The roles stand in the elements, as a style that makes cards of rows takes them away. */
export function DataTable({ label, head, rows }: DataTableProps) {
  return (
    <div className="table data-table" tabIndex={0} role="group" aria-label={label}>
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {head.map((name) => (
              <th key={name} role="columnheader" scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={row.key} role="row">
              {row.cells.map((cell, index) => (
                <td key={head[index]} role="cell" data-name={head[index]}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
