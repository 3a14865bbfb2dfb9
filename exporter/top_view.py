"""How `weir top` draws a snapshot: for each card a line about it and a table of its slices.

Pure: a snapshot in, something rich can print out. What nobody can say is shown as a dash, never as 0.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from exporter.snapshot import GpuState, SliceState, Snapshot
from weir.units import format_bytes

_BAR_CELLS = 20
_WIDTH_WITH_BARS = 100
_DASH = "-"


def view(snapshot: Snapshot, simulate: str | None, width: int) -> RenderableType:
    """The whole screen, `width` cells wide: bars are the first thing to go where it is narrow."""
    bars = width >= _WIDTH_WITH_BARS
    parts: list[RenderableType] = []
    shown: set[str] = set()
    for gpu in snapshot.gpus.gpus:
        shown.add(gpu.gpu.uuid)
        here = snapshot.slices_on(gpu.gpu.uuid)
        parts += [_card(gpu, simulate), *([_table(here, bars)] if here else _empty(snapshot)), ""]
    if lost := [state for state in snapshot.slices if state.claims.gpu_uuid not in shown]:
        parts += [Text("On cards that do not answer", style="bold yellow"), _table(lost, bars), ""]
    parts += [Text(f"{one.collector}: {one.error}", style="yellow") for one in snapshot.health if one.error]
    if not snapshot.slices and all(one.success for one in snapshot.health if one.collector == "slices"):
        machine = f"--simulate {simulate} " if simulate else ""
        made = f"No slices. Make one: weir run {machine}--cores 30 --memory 4GiB -- COMMAND"
        parts.append(Text(made, style="dim"))
    return Group(*parts)


def _empty(snapshot: Snapshot) -> list[RenderableType]:
    """Under a card without slices, where others have some: without any, the last line says so once."""
    return [Text("no slices", style="dim")] if snapshot.slices else []


def _card(state: GpuState, simulate: str | None) -> Text:
    gpu, reading = state.gpu, state.reading
    text = Text(f"GPU {gpu.index}  {gpu.name}", style="bold")
    if simulate:
        text.append("  simulated", style="yellow")
    used = f"{format_bytes(reading.memory_used)} of {format_bytes(gpu.capacity)}"
    text.append(f"   utilisation {_percent(reading.utilization)}   memory {used}", style="not bold")
    if state.outside:
        held = format_bytes(state.outside_bytes or 0)
        text.append(f"   outside slices {len(state.outside)} ({held})", style="yellow")
    return text


def _table(states: list[SliceState], bars: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("SLICE", overflow="ellipsis")  # a long name is cut before any number is
    for title in ("ASKED", "GIVEN"):
        table.add_column(title, justify="right", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True)
    for title in ("MEMORY", "LIMIT", "REFUSED", "HELD BACK", "PROCS"):
        table.add_column(title, justify="right", no_wrap=True)
    for state in sorted(states, key=lambda one: (*one.container.key, one.claims.index)):
        table.add_row(*_row(state, bars))
    return table


def _row(state: SliceState, bars: bool) -> list[RenderableType]:
    claims, counters = state.claims, state.counters
    limit = claims.memory_limit
    over = limit is not None and state.in_use > limit
    refused = counters.denied_limit + counters.denied_device + counters.denied_policy
    return [
        escape("/".join(part for part in state.container.key if part)),
        _asked(state),
        _percent(state.used_ratio),
        *([bar(state.used_ratio, claims.core_requested)] if bars else []),
        Text(format_bytes(state.in_use), style="bold red" if over else ""),
        _DASH if limit is None else format_bytes(limit),
        Text(str(refused), style="yellow" if refused else "dim"),
        _percent(state.throttled_ratio),
        _processes(state),
    ]


def _asked(state: SliceState) -> Text:
    """What was asked of the card: a share of its time, or by MPS of its multiprocessors."""
    asked = state.claims.core_requested
    unit = " SMs" if state.container.backend == "mps" else ""
    text = Text("no cap" if asked is None else f"{_percent(asked)}{unit}")
    return text if state.container.daemon_lives is not False else text.append(", no daemon", "bold red")


def _processes(state: SliceState) -> Text:
    """How many run, and how many of them nothing holds."""
    loose = len(state.strays or ())
    held = str(len(state.container.pids))
    return Text.assemble(held, (f" +{loose} not held", "bold red")) if loose else Text(held)


def bar(used: float | None, asked: float | None) -> Text:
    """A share as a bar with a mark at what was asked."""
    filled = round((used or 0.0) * _BAR_CELLS)
    cells = ["━" if cell < filled else "─" for cell in range(_BAR_CELLS)]
    text = Text("".join(cells), style="dim")
    text.stylize("green", 0, filled)
    if asked is not None:
        mark = min(round(asked * _BAR_CELLS), _BAR_CELLS) - 1
        text = Text.assemble(text[:mark], ("┃", "bold"), text[mark + 1 :])
    return text


def _percent(ratio: float | None) -> str:
    return _DASH if ratio is None else f"{ratio * 100:.0f} %"
