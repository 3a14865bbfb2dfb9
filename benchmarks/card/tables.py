"""Markdown tables and pictures of what a journal holds; nothing is measured here.

Single loads have a table of their own (alone_table.py). In a page the tables stand between two marks and
replace what was there, and say which rows are missing."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.card import curves
from benchmarks.card.alone_table import alone
from benchmarks.card.journal import Journal, Record
from benchmarks.card.latency import ARRIVALS, PLACES, row_name
from benchmarks.card.loads import BY_NAME
from benchmarks.card.markdown import DASH, build, cell, table
from benchmarks.card.memory import held
from benchmarks.card.pairs import MIXES
from benchmarks.card.phases import NOT_BINDING
from benchmarks.card.picture import Series, draw
from weir.errors import UsageError

BEGIN, END = "<!-- card tables: begin -->", "<!-- card tables: end -->"


def ordered(journal: Journal, part: str, names: list[str]) -> list[Record]:
    """The rows of a part in this order, whenever they were measured; others at the end."""
    places = {name: index for index, name in enumerate(names)}
    return sorted(journal.of(part), key=lambda record: places.get(record["row"], len(places)))


def joined(values: list[float | None]) -> str:
    """As `60.0 + 30.0`."""
    return " + ".join(cell(value) for value in values)


def work_beside(journal: Journal, record: Record) -> list[float | None]:
    """Each program's pace beside its neighbours, in percent of its pace alone at the same limit.

    That was measured another time, but for programs that their hosts hold up: those differ from host to host.
    """
    if "kept" in record:
        kept: list[float | None] = record["kept"]
        return kept
    paces: list[float | None] = []
    for load, asked, one in zip(record["loads"], record["asked"] or (), record["each"], strict=False):
        alone_row = journal.get("alone", f"{load}/{asked}") if BY_NAME[load].fills else None
        known = alone_row and alone_row.get("rate") and one["rate"] is not None
        paces.append(100 * one["rate"] / alone_row["rate"] if known and alone_row else None)
    return paces


def pairs(journal: Journal) -> str:
    """The table of loads side by side."""
    rows = []
    for record in ordered(journal, "pairs", [mix.row(one) for mix in MIXES for one in (None, *mix.shares)]):
        asked = " + ".join(map(str, record["asked"])) if record["asked"] else "no Weir"
        total = None if None in record["given"] else sum(record["given"])
        aims = zip(record["each"], record["asked"] or (), strict=False)
        worst = joined([curves.worst(one["seconds"], aim) for one, aim in aims]) or DASH
        row = [" + ".join(record["loads"]), asked, joined(record["given"]), cell(total)]
        rows.append(
            [*row, cell(record["nvml"]), worst, joined(work_beside(journal, record)) or DASH, build(record)]
        )
    head = ["loads", "asked", "given, %", "together", "card busy, NVML %", "worst second, points"]
    head += ["pace, % of alone at the same limit", "build"]
    return f"### Side by side\n\n{table(head, rows)}" if rows else ""


def memory(journal: Journal) -> str:
    """Which ways of taking memory a limit of 1 GiB held."""
    rows = []
    for record in journal.of("memory"):
        verdict = ("yes" if held(record) else "**no**") if record["sliced"] else "no Weir"
        answer = f"`{record['refused']}`" if record["refused"] else "never"
        given = [cell(record[key], 0) for key in ("taken_mib", "nvml_mib")]
        rows.append([record["way"], verdict, answer, *given])
    head = ["way", "held", "refused with", "given, MiB", "NVML's figure for the process, MiB"]
    return f"### Ways to take memory past 1 GiB\n\n{table(head, rows)}" if rows else ""


def frameworks(journal: Journal) -> str:
    """What frameworks saw of their slice."""
    rows = []
    for record in journal.of("frameworks"):
        name, memory_limit = record["row"].rsplit("/", 1)
        rows.append([name, memory_limit, f"`{json.dumps(record['saw'])}`"])
    return f"### Frameworks\n\n{table(['framework', 'slice', 'its own line'], rows)}" if rows else ""


def against_bare(record: Record, name: str, mode: str) -> str:
    """A mode's median, and how many percent it is from bare: the median of the turns, and their range."""
    medians = record["medians"][name]
    if mode == "bare":
        return f"{medians[mode]:.2f}"
    if "seen" not in record:  # rows that kept no turns
        return f"{medians[mode]:.2f} ({100 * (medians[mode] / medians['bare'] - 1):+.1f} %)"
    turns = record["seen"][name]
    ratios = [100 * (one / bare - 1) for one, bare in zip(turns[mode], turns["bare"], strict=True)]
    spread = f"{min(ratios):+.1f} to {max(ratios):+.1f}"
    return f"{medians[mode]:.2f} ({statistics.median(ratios):+.1f} %; {spread})"


def overhead(journal: Journal) -> str:
    """What the limiter adds, by turns of processes and by phases of one."""
    turns, inside = [], []
    for record in journal.of("overhead"):
        for name, medians in record.get("medians", {}).items():
            turns.append([name, *(against_bare(record, name, mode) for mode in medians)])
        if "added_percent" in record:
            paces = [f"{record[key]:.1f}" for key in ("without", "with_limit")]
            sure = f"{record['sure'][0]:+.2f} to {record['sure'][1]:+.2f}" if record.get("sure") else DASH
            added = [f"{record['added_percent']:+.2f}", sure, str(len(record.get("blocks", ())) or DASH)]
            title = BY_NAME[record["load"]].title
            inside.append([title, f"{record.get('limit', NOT_BINDING)} %", *paces, *added])
    heads = ["what", "bare", "memory limit", "and a core limit of 99"]
    shown = []
    if inside:
        head = ["program", "core limit", "pace without it, a second", "with it", "time added, %"]
        shown.append(table([*head, "95 % sure of", "blocks"], inside))
    if turns:
        shown.append(table(heads, turns))
        shown.append("In brackets: against bare, the median of the turns; least and most.\n")
    return "### What the limiter costs on this card\n\n" + "\n".join(shown) if shown else ""


def latency(journal: Journal) -> str:
    """How long a small inference step takes in a slice, alone and beside a neighbour."""
    rows = []
    for record in ordered(journal, "latency", [row_name(one, place) for one in ARRIVALS for place in PLACES]):
        frame = f"{record['frame']} ms" if record["frame"] else DASH
        times = [cell(record.get("in_force")), *(cell(record[key], 2) for key in ("p50_ms", "p99_ms"))]
        rows.append([record["arrivals"], record["where"], frame, *times, str(record["steps"]), build(record)])
    head = ["steps come", "where", "frame asked", "in force, ms", "p50, ms", "p99, ms", "steps", "build"]
    title = "### Latency of an inference step of 1.6 ms"
    return f"{title}\n\n{table(head, rows)}" if rows else ""


def mps(journal: Journal) -> str:
    """What an MPS daemon held, and what Weir counted beside it."""
    rows, memories = [], []
    for record in journal.of("mps"):
        shown = ", ".join(f"{of}: {name} {mib}" for of, name, mib in record["listed"])
        if "taken_mib" in record:
            ledger = [str(record.get(key, DASH)) for key in ("ledger_mib", "refused_by_ledger")]
            given = cell(record["taken_mib"], 0)
            memories.append([record["backend"], given, f"`{record['refused']}`", *ledger, shown])
            continue
        asked = " + ".join(map(str, record["asked"])) or DASH
        each = [joined([one[key] for one in record["each"]]) for key in ("own", "limiter", "rate")]
        rows.append([record["load"], record["backend"], asked, *each, cell(record["nvml"]), shown])
    head = ["load", "held by", "asked", "own kernels, %", "limiter, %", "done a second", "card busy, NVML %"]
    text = table([*head, "NVML's lists, MiB"], rows) if rows else ""
    head = ["who refuses at 1 GiB", "given, MiB", "refused with", "ledger, MiB", "refused by it"]
    text += "\n" + table([*head, "NVML's lists, MiB"], memories) if memories else ""
    return f"### Under an MPS daemon\n\n{text}" if text else ""


def turns(journal: Journal) -> str:
    """What NVML showed of programs that only the driver shared the card between."""
    rows = [
        [
            " + ".join(record["loads"]),
            joined(record["own"]),
            " + ".join(cell(rate, 0) for rate in record["rates"]),
            cell(record["nvml"]),
            cell(record["beyond_us"], 2),
        ]
        for record in journal.of("turns")
    ]
    head = ["kernels", "own kernels, %", "a second", "card busy, NVML %", "more than kernels, µs each"]
    return f"### Without Weir, in the driver's turns\n\n{table(head, rows)}" if rows else ""


def pictures(journal: Journal) -> list[Path]:
    """A picture for each set of shares side by side; their paths."""
    directory = journal.directory / "images"
    directory.mkdir(exist_ok=True)
    paths = []
    for record in journal.of("pairs"):
        asked: list[Any] = record["asked"] or [None] * len(record["loads"])
        each = zip(record["loads"], asked, record["each"], strict=True)
        series = [Series(load, share, one["seconds"]) for load, share, one in each]
        path = directory / (record["row"].replace("/", "-").replace("+", "-") + ".svg")
        shares = " + ".join(map(str, record["asked"])) if record["asked"] else "no Weir"
        path.write_text(draw(f"{' + '.join(record['loads'])}: {shares}; {record['card']}", series))
        paths.append(path)
    return paths


def origin(journal: Journal) -> str:
    """Where the rows are from: each different date, card, driver, row length and commit, with its rows."""
    keys = ("date", "card", "driver", "length", "commit")
    known: dict[tuple[str, ...], Counter[str]] = {}
    for record in (one for part in SECTIONS for one in journal.of(part)):
        where = tuple(record.get(key) or "not told" for key in keys)
        known.setdefault(where, Counter())[record["part"]] += 1
    return "\n".join(
        f"- {date}, {card}, driver {driver}, rows of {length}, commit {commit}: "
        + ", ".join(f"{count} of {part}" for part, count in parts.items())
        for (date, card, driver, length, commit), parts in known.items()
    )


SECTIONS = {
    "memory": memory,
    "frameworks": frameworks,
    "overhead": overhead,
    "alone": alone,
    "pairs": pairs,
    "latency": latency,
    "mps": mps,
    "turns": turns,
}


def owed(journal: Journal, names: Sequence[str]) -> str:
    """Which of these rows (`part/row`) the journal lacks; empty where it has them all."""
    missing: dict[str, list[str]] = {}
    for name in names:
        part, _, row = name.partition("/")
        if (part, row) not in journal:
            group, _, last = name.rpartition("/")
            missing.setdefault(group, []).append(last)
    if not missing:
        return ""
    count = sum(map(len, missing.values()))
    rows = "; ".join(f"{group} ({', '.join(each)})" for group, each in missing.items())
    return f"**Not measured yet**, {count} of {len(names)} rows: {rows}.\n"


def render(journal: Journal, names: Sequence[str] = ()) -> str:
    """Everything, as Markdown; `names`: of all rows that there could be."""
    parts = [f"`python -m benchmarks.card DIR`\n\n{origin(journal)}\n", owed(journal, names)]
    parts += [section(journal) for section in SECTIONS.values()]
    shown = [f"![{path.stem}](images/{path.name})" for path in pictures(journal)]
    return "\n".join([part for part in parts if part] + shown) + "\n"


def write(journal: Journal, page: Path | None, names: Sequence[str] = ()) -> None:
    """Write DIR/benchmarks.md, and into `page` with its pictures beside it if one is given."""
    text = render(journal, names)
    (journal.directory / "benchmarks.md").write_text(text)
    if page is None:
        return
    before = page.read_text()
    if BEGIN not in before or END not in before:
        raise UsageError("--docs", str(page), f"a page with the marks {BEGIN} and {END}")
    head, rest = before.split(BEGIN, 1)
    page.write_text(f"{head}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}")
    images = page.parent / "images"
    images.mkdir(exist_ok=True)
    for picture in (journal.directory / "images").glob("*.svg"):
        (images / picture.name).write_text(picture.read_text())
