"""Figures in the form that is asked for: a table for people, one in Markdown, or JSON; and charts in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadkeep.cli.output import out, print_json, writing

if TYPE_CHECKING:
    from rich.table import Table

    from threadkeep_evals.plot import Chart


class Style(Enum):
    """How figures are printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


Format = Annotated[Style, typer.Option("--format", help="How to print it; json is the same as --json.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw it into this SVG file, too; replaced.", show_default=False)
]


def show(report: object, tables: Callable[[], Sequence[Table]], style: Style, *, json: bool = False) -> None:
    """Print *report* as JSON, or *tables* of it."""
    if json or style is Style.JSON:
        print_json(report)
        return
    for place, table in enumerate(tables()):
        if style is Style.MARKDOWN:
            out.print(("\n" if place else "") + markdown(table), markup=False)
        else:
            out.print(table)


def build_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", ends: Sequence[int] = ()
) -> Table:
    """Return a table of figures.

    Args:
        title: Above it.
        columns: Their names; a ``>`` in front sets the column's cells on the right.
        rows: The cells.
        caption: Below it.
        ends: The rows, counted from 0, that end a section.
    """
    from rich.table import Table

    table = Table(title=title, caption=caption or None)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for number, row in enumerate(rows):
        table.add_row(*row, end_section=number in ends)
    return table


def markdown(table: Table) -> str:
    """Return *table* as a pipe table, its title above it and its caption below."""
    cells = [[_cell(one) for one in (column.header, *column.cells)] for column in table.columns]
    head, *rows = zip(*cells, strict=True)
    ruled = ["---:" if column.justify == "right" else "---" for column in table.columns]
    lines = [f"| {' | '.join(row)} |" for row in (head, ruled, *rows)]
    title = [f"**{_cell(table.title)}**", ""] if table.title else []
    caption = ["", _cell(table.caption).replace("\n", "  \n")] if table.caption else []
    return "\n".join([*title, *lines, *caption])


def draw(chart: Chart, path: Path) -> None:
    """Write *chart* to *path*, over what is there.

    Raises:
        InvalidInputError: It cannot be written.
    """
    from threadkeep_evals.plot import svg

    with writing(path):
        path.write_text(svg(chart), encoding="utf-8")


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|")
