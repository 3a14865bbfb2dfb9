"""What a limit adds inside one process: its pace in short phases with it and without it.

The pace of a host drifts by tens of percent over seconds, and processes differ by as much. So the limit goes
away and comes back in blocks of four phases, without, with, with, without: a pace that drifts evenly falls
out of a block's ratio. A block gives one figure, in percent of time added; the median of the blocks is what
counts, with the interval that holds the true median in 95 of 100 runs whatever the noise looks like (order
statistics, by the binomial). A phase begins GAP seconds after the control page carries its limit: by then
the limiter has read it, and steps that were launched under the other one are done.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

from benchmarks.card import curves
from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME
from benchmarks.card.program import Program

NO_LIMIT, NOT_BINDING = 100, 99
BLOCK = (False, True, True, False)  # whether the limit is there
PHASE = 0.2  # seconds; longer ones let more of a curved drift in, shorter ones more of steps' edges
GAP = 0.1
SETTLE = 1.0
LINES = 0.02  # seconds between the load's lines
BLOCKS = 22
LASTING = SETTLE + BLOCKS * (len(BLOCK) * PHASE + 2 * (GAP + 0.05))  # 0.05: for `weir set`
SURE = 0.95

Span = tuple[float, float]


def added_percent(paces: Sequence[float]) -> float:
    """Time that the limit added in one block, percent, from the paces of its phases in BLOCK's order."""
    logs = [math.log(pace) for pace in paces]
    return 100 * math.expm1((logs[0] + logs[3] - logs[1] - logs[2]) / 2)


def median_interval(values: Sequence[float]) -> Span | None:
    """Between which two of the values the true median lies, SURE of the time; None where they are too few."""
    ordered, count = sorted(values), len(values)
    outside, cut = 2 / 2**count, 0  # how often all values, or all but `cut`, are on one side of it
    while outside <= 1 - SURE:
        cut += 1
        outside += 2 * math.comb(count, cut) / 2**count
    return (ordered[cut - 1], ordered[count - cut]) if cut else None


def figures(curve: curves.Curve, blocks: Sequence[Sequence[Span]]) -> Record:
    """What a counter says of blocks of four phases. Raises LoadError where it says nothing."""
    paces = [[curves.slope(curve, *span) for span in block] for block in blocks]
    whole = [known for block in paces if len(known := [one for one in block if one]) == len(BLOCK)]
    if not whole:
        raise LoadError("no block in which every phase had a pace")
    added = [added_percent(block) for block in whole]
    return {
        "without": statistics.median(pace for block in whole for pace in (block[0], block[3])),
        "with_limit": statistics.median(pace for block in whole for pace in (block[1], block[2])),
        "added_percent": statistics.median(added),
        "sure": median_interval(added),
        "blocks": [round(one, 3) for one in added],
    }


def run_block(program: Program, limit: int) -> list[Span]:
    """When the four phases of a block were; before it and after it there is no limit."""
    spans = []
    before = False
    for held in BLOCK:
        if held != before:
            program.set_cores(limit if held else NO_LIMIT)
            time.sleep(GAP)
            before = held
        start = time.monotonic()
        time.sleep(PHASE)
        spans.append((start, start + PHASE))
    return spans


def one_row(bench: Bench, load: str, limit: int, blocks: int = BLOCKS) -> Record:
    """One process through all of its blocks."""
    known = BY_NAME[load]
    with Program(bench, "phases", known.command(LINES), NO_LIMIT) as program:
        program.await_line()
        time.sleep(min(bench.settle, SETTLE))
        spans = [run_block(program, limit) for _ in range(blocks)]
        time.sleep(GAP)  # the load's last lines
        pace = "steps" if known.torch else "launches"  # kernels are counted when half a queue is complete
        return {"load": load, "limit": limit, **figures(program.curve(pace), spans)}
