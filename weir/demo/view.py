"""How the demo looks: a title, a table of slices, a progress bar, the verdict. Pure: numbers in, rich out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from weir.demo.verdict import Judgement, percent
from weir.units import format_bytes

_BAR_CELLS = 18
_WIDTH_WITH_BARS = 80  # where it is narrower, no number is cut for them


@dataclass(frozen=True)
class Row:
    """One slice as the table shows it: shares are ratios, memory is bytes, None is not known."""

    name: str
    asked: float | None  # None: asked for no share
    given: float | None = None
    own: float | None = None
    memory: float | None = None
    limit: float | None = None
    refused: float = 0.0


def title(where: str, simulated: bool) -> Text:
    """What this is and on which card."""
    return Text.assemble(("Weir demo", "bold"), "  ", (where, "bold yellow" if simulated else "bold"))


@dataclass(frozen=True)
class Slices:
    """The table of slices: what each asked for and what it got."""

    rows: tuple[Row, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _table(self.rows, bars=options.max_width >= _WIDTH_WITH_BARS)


def _table(rows: Iterable[Row], *, bars: bool) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column("SLICE", no_wrap=True)
    made.add_column("ASKED", justify="right", no_wrap=True)
    if bars:
        made.add_column("", no_wrap=True)
    for heading in ("GIVEN", "OWN COUNT", "MEMORY", "LIMIT", "REFUSED"):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        name, asked, *numbers = _cells(row)
        drawn = [Text() if row.asked is None else bar(row.given, row.asked)] if bars else []
        made.add_row(name, asked, *drawn, *numbers)
    return made


def _measured_on(where: str) -> Text:
    return Text(f"measured on {'a ' if where.startswith('simulated') else ''}{where}", style="dim italic")


def _cells(row: Row) -> list[RenderableType]:
    return [
        Text(row.name, style="bold"),
        "-" if row.asked is None else f"{row.asked * 100:.0f} %",
        percent(row.given) if row.asked is not None else "-",
        percent(row.own),
        "-" if row.memory is None else format_bytes(row.memory),
        "-" if row.limit is None else format_bytes(row.limit),
        Text(f"{row.refused:.0f}", style="bold yellow" if row.refused else "dim"),
    ]


def bar(given: float | None, asked: float) -> Text:
    """A share as a bar, with a mark at what was asked for."""
    filled = min(round((given or 0.0) * _BAR_CELLS), _BAR_CELLS)
    text = Text("━" * filled, style="green")
    text.append("─" * (_BAR_CELLS - filled), style="dim")
    mark = min(round(asked * _BAR_CELLS), _BAR_CELLS - 1)
    return Text.assemble(text[:mark], ("┃", "bold"), text[mark + 1 :])


def screen(
    head: Sequence[RenderableType], rows: Iterable[Row], where: str, doing: str, done: float
) -> RenderableType:
    """The whole of it while it runs: `doing` in words, `done` from 0 to 1."""
    progress = Table.grid(padding=(0, 2))
    progress.add_row(ProgressBar(total=1.0, completed=done, width=40), Text(doing, style="dim"))
    return Group(*head, "", Slices(tuple(rows)), _measured_on(where), "", progress)


def final(
    head: Sequence[RenderableType], rows: Iterable[Row], judgements: Sequence[Judgement], where: str, top: str
) -> RenderableType:
    """What stays on the screen: the table, each judgement, and the verdict, labelled if simulated.

    `top`: the command that shows who else may have had what the slices did not get.
    """
    held = all(one.held for one in judgements)
    label = "  (simulated)" if where.startswith("simulated") else ""
    lines = [
        Text.assemble(("✓ ", "bold green") if one.held else ("✗ ", "bold red"), one.text, (label, "dim"))
        for one in judgements
    ]
    told = "HELD: every slice got its share and kept its limit" if held else "NOT HELD: the numbers are off"
    verdict = Text(f"{told} ({where})", style="bold green" if held else "bold red")
    if not held:
        verdict.append(f"\nWhat else is on the card ({top} shows it) and a busy host take from shares", "dim")
    return Group(*head, "", Slices(tuple(rows)), _measured_on(where), "", *lines, "", verdict)
