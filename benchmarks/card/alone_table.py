"""The table of single loads: what each got of the card, how far off that was, and what it kept of its pace.

What a row's error is, verdict.py says; here it is only shown, with the witness beside it, and what a reader
must know of NVML and CUPTI to read the table below it.
"""

from __future__ import annotations

import statistics

from benchmarks.card import verdict
from benchmarks.card.journal import Journal, Record
from benchmarks.card.loads import BY_NAME
from benchmarks.card.markdown import DASH, build, cell, table
from benchmarks.card.verdict import NO_LIMIT

LABELS = {None: "no Weir", NO_LIMIT: "no limit"}
BY = {"nvml": "NVML", "cupti": "CUPTI", "kernel_time": "CUPTI"}
ABOUT = """
The error is GPU time less the smaller of the limit and what the program uses without one (no Weir; no limit
where that is not there): by NVML where the program keeps the card busy by itself, else by CUPTI. A row has
none where the limiter counted a point less than the limit, and more, and the program does not keep the card
busy by itself, as its own process without a limit says, where that is known: its host alone held it back.
What a limit costs that does not bind is under Overhead. NVML counts 1.0 to 1.3 µs more for each kernel than
CUPTI does, so one of 2 µs half as long again. CUPTI's figure is the kernel time of a step, measured
afterwards, times the row's pace; in rows marked `*` it is that of the time under CUPTI, which slows such
programs. Work is against no Weir, in another process; pace kept, of programs that use less than their limit,
is against the same process without.
"""


def row(journal: Journal, record: Record) -> list[str]:
    """One row of single loads."""
    limit = record["limit"]
    label = LABELS.get(limit, f"{limit} %") + ("*" if raw_cupti(record) else "")
    off, second = verdict.error(journal, record), verdict.worst_second(journal, record)
    kernels = record.get("kernel_time", record["cupti"])
    return [
        BY_NAME[record["load"]].title,
        label,
        *(cell(one) for one in (record["nvml"], record["own"], record["limiter"], kernels)),
        DASH if off is None else f"{off:+.1f} ({BY[verdict.witness(journal, record)]})",
        DASH if second is None else f"{second:+.1f} ({record['seconds_by']})",
        cell(verdict.work(journal, record)),
        cell(verdict.pace_kept(journal, record)),
        cell(record["clock"], 0),
        build(record),
    ]


def raw_cupti(record: Record) -> bool:
    """Whether all that CUPTI said is of the time in which it slowed the program."""
    return record["cupti"] is not None and "kernel_time" not in record


def order(record: Record) -> tuple[int, int]:
    """As loads are listed, each without Weir, by its limits, and without one."""
    return list(BY_NAME).index(record["load"]), record["limit"] or 0


def summary(journal: Journal, records: list[Record]) -> str:
    """How far off all limited rows were, and what those kept that use less than their limit."""
    errors = [abs(off) for one in records if (off := verdict.error(journal, one)) is not None]
    kept = [pace for one in records if (pace := verdict.pace_kept(journal, one)) is not None]
    if not errors:
        return ""
    text = f"\n{len(errors)} limited rows: error {statistics.fmean(errors):.2f} points on average, "
    text += f"{max(errors):.2f} at worst."
    if kept:
        text += f" {len(kept)} of them are of programs that use less than their limit: they kept "
        text += f"{statistics.fmean(kept):.1f} % of their pace on average, {min(kept):.1f} % at worst."
    return text + "\n"


def alone(journal: Journal) -> str:
    """The table of single loads, and the mean and worst error over it."""
    records = sorted(journal.of("alone"), key=order)
    head = ["load", "limit", "NVML, %", "own kernels, %", "limiter, %", "CUPTI, %", "error, points"]
    head += ["worst second, points", "work, % of no limit", "pace kept, %", "SM clock, MHz", "build"]
    if not records:
        return ""
    rows = table(head, [row(journal, record) for record in records])
    return f"### Programs alone on the card\n\n{rows}{summary(journal, records)}{ABOUT}"
