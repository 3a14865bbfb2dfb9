"""What programs side by side keep of the pace that each has alone at its limit, inside the same processes.

Hosts differ by a factor of two and drift by tens of percent within seconds, so a pace alone that was measured
another time says nothing. Here all work, then all but one are stopped, then all work again, and so on: each
time alone is compared with the times together before it and after it. What a program kept is the median of
that over the rounds. The first second of a time is not counted: that a slice stopped, or goes on, shows to
the agent only after a while.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from benchmarks.card import curves
from benchmarks.card.phases import Span
from benchmarks.card.program import Program

ROUNDS = 3
SETTLE, COUNTED = 1.0, 1.5  # seconds
LASTING = 2 * (SETTLE + COUNTED)  # of a program in a round


@contextmanager
def stopped(programs: Sequence[Program]) -> Iterator[None]:
    """All processes of these slices do nothing meanwhile. Their supervisors stop with them, as for Ctrl-Z."""
    pids = [pid for program in programs for pid in program.pids()]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in (*pids, *(program.supervisor for program in programs)):
            with suppress(ProcessLookupError):  # one that ended meanwhile keeps no other stopped
                os.kill(pid, signal.SIGCONT)


def counted() -> Span:
    """Let some time pass, and say which of it counts."""
    time.sleep(SETTLE)
    start = time.monotonic()
    time.sleep(COUNTED)
    return start, start + COUNTED


def kept_percent(curve: curves.Curve, times: Sequence[tuple[Span, Span, Span]]) -> float | None:
    """The pace together, of the time alone between; None where it has no pace."""
    found = []
    for spans in times:
        before, alone, after = (curves.slope(curve, *span) for span in spans)
        if before and alone and after:
            found.append(100 * (before + after) / 2 / alone)
    return statistics.median(found) if found else None


def kept(programs: Sequence[Program], counts: Sequence[str]) -> list[float | None]:
    """For each program, percent of its pace alone; `counts`: the keys of what they count as their work."""
    times: list[list[tuple[Span, Span, Span]]] = [[] for _ in programs]
    before = counted()
    for _ in range(ROUNDS):
        for index, program in enumerate(programs):
            with stopped([other for other in programs if other is not program]):
                alone = counted()
            after = counted()
            times[index].append((before, alone, after))
            before = after
    time.sleep(0.3)  # the loads' last lines
    every = zip(programs, counts, times, strict=True)
    return [kept_percent(program.curve(key), spans) for program, key, spans in every]
