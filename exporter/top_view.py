"""How `weir top` draws a snapshot: for each card a line about it and a table of its slices.

Pure: a snapshot in, something rich can print out. What nobody can say is shown as a dash, never as 0.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from exporter.snapshot import Container, GpuState, Leased, SliceState, Snapshot
from weir.units import format_bytes

_BAR_CELLS = 20
_BAR = ""  # its column's title
_FIRST_TO_GO = (_BAR, "HELD BACK", "PROCS", "REFUSED", "LIMIT", "MEMORY", "GIVEN")
_NAME_CELLS = 16  # a longer name is cut before anything else is
_STEADY_CELLS = {"MEMORY": 9, "LIMIT": 9}  # `139.8 GiB`: no column comes and goes with an amount
_GAP = 2
_DASH = "-"


def view(snapshot: Snapshot, simulate: str | None, width: int) -> RenderableType:
    """The whole screen, `width` cells wide: where it is narrow bars go first, then other columns."""
    parts: list[RenderableType] = []
    shown: set[str] = set()
    for gpu in snapshot.gpus.gpus:
        shown.add(gpu.gpu.uuid)
        here = snapshot.slices_on(gpu.gpu.uuid)
        parts += [_card(gpu, simulate), *(_slices(here, snapshot, width) or _empty(snapshot)), ""]
    if lost := [state for state in snapshot.slices if state.claims.gpu_uuid not in shown]:
        parts += [
            Text("On cards that do not answer", style="bold yellow"),
            *_slices(lost, snapshot, width),
            "",
        ]
    parts += [Text(f"{one.collector}: {one.error}", style="yellow") for one in snapshot.health if one.error]
    if not snapshot.slices and all(one.success for one in snapshot.health if one.collector == "slices"):
        parts.append(Text(_none(snapshot, simulate), style="dim"))
    return Group(*parts)


def _none(snapshot: Snapshot, simulate: str | None) -> str:
    """That there are no slices, and how to make one where there is a card."""
    machine = f"--simulate {simulate} " if simulate else ""
    made = f" Make one: weir run {machine}--cores 30 --memory 4GiB -- COMMAND"
    return f"No slices.{made if snapshot.gpus.gpus else ''}"


def _empty(snapshot: Snapshot) -> list[RenderableType]:
    """Under a card without slices, where others have some: without any, the last line says so once."""
    return [Text("no slices", style="dim")] if snapshot.slices else []


def _slices(states: list[SliceState], snapshot: Snapshot, width: int) -> list[RenderableType]:
    """The slices of a card, if any: the table, and lines about wishes for turns and about leases."""
    if not states:
        return []
    ordered = sorted(states, key=lambda one: (*one.container.key, one.claims.index))
    wishes = (_wishes(one.container) for one in ordered)
    leases = (_lease(one, one.container.lease, snapshot.time) for one in ordered if one.container.lease)
    return [_table(ordered, width), *filter(None, wishes), *filter(None, leases)]


def _name(container: Container) -> str:
    return "/".join(part for part in container.key if part)


def _wishes(container: Container) -> Text | None:
    """What was asked of its turns, as `alice: priority 0, frame 10 ms`; None where nothing was."""
    asked = ["priority 0"] if container.priority == 0 else []
    if container.frame:
        asked.append(f"frame {container.frame * 1000:.0f} ms")
    return Text(f"{_name(container)}: {', '.join(asked)}", style="dim") if asked else None


def _lease(state: SliceState, lease: Leased, now: float) -> Text | None:
    """What a lease lowers, as `alice: leased 10 %, 2 GiB for 299 s more`; None where nothing."""
    own, claims = state.container, state.claims
    memory = claims.memory_requested
    time = claims.core_requested if own.backend == "weir" and own.policy == "fixed" else None
    lowered = []
    if lease.cores is not None and (time is None or lease.cores < time):
        lowered.append(_percent(lease.cores))
    if lease.memory is not None and (memory is None or lease.memory < memory):
        lowered.append(format_bytes(lease.memory))
    left = f" for {max(lease.ends - now, 0):.0f} s more"
    return Text(f"{_name(own)}: leased {', '.join(lowered)}{left}", style="yellow") if lowered else None


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


def _table(states: list[SliceState], width: int) -> Table:
    rows = [_row(state) for state in states]
    titles = list(rows[0])
    for title in _FIRST_TO_GO:
        if _cells(titles, rows) > width:
            titles.remove(title)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    table.add_column(titles[0], overflow="ellipsis")
    for title in titles[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[title] for title in titles))
    return table


def _cells(titles: list[str], rows: list[dict[str, Text]]) -> int:
    """How wide a table is with these columns, the first of which is the name."""
    name, *others = (
        max(len(title), _STEADY_CELLS.get(title, 0), *(row[title].cell_len for row in rows))
        for title in titles
    )
    return min(name, _NAME_CELLS) + sum(_GAP + cells for cells in others)


def _row(state: SliceState) -> dict[str, Text]:
    counters, limit = state.counters, state.claims.memory_limit
    over = limit is not None and state.in_use > limit
    refused = counters.denied_limit + counters.denied_device + counters.denied_policy
    return {
        "SLICE": Text(_name(state.container)),
        "ASKED": _asked(state),
        "GIVEN": Text(_percent(state.used_ratio)),
        _BAR: bar(state.used_ratio, state.claims.core_requested),
        "MEMORY": Text(format_bytes(state.in_use), style="bold red" if over else ""),
        "LIMIT": Text(_DASH if limit is None else format_bytes(limit)),
        "REFUSED": Text(str(refused), style="yellow" if refused else "dim"),
        "HELD BACK": Text(_percent(state.throttled_ratio)),
        "PROCS": _processes(state),
    }


def _asked(state: SliceState) -> Text:
    """What was asked of the card: a share of its time, which burst may exceed, or of its multiprocessors."""
    asked, own = state.claims.core_requested, state.container
    unit = " SMs" if own.backend == "mps" else " burst" if own.policy == "burst" else ""
    text = Text("no cap" if asked is None else f"{_percent(asked)}{unit}")
    gone = "daemon" if own.daemon_lives is False else "agent" if own.agent_lives is False else ""
    return text.append(f", no {gone}", "bold red") if gone else text


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
