"""Part `alone`: every load by itself: without Weir, then in one slice whose limit is raised from row to row.

Raised and never lowered: what a program has queued under one limit would be a debt under a lower one. GPU
time is NVML's utilisation of the card over the window. Beside it stand the load's own finished kernels
(their nominal length, so work), the limiter's counter, and for PyTorch the kernel time that CUPTI saw in a
phase of its own. Single seconds are told by the load's count where its lines are close enough together (a
load that is held back writes none), else by the limiter's counter.
"""

from __future__ import annotations

from functools import partial

from benchmarks.card import curves
from benchmarks.card.bench import START, Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.loads import ALL, Load, available
from benchmarks.card.program import Program
from benchmarks.card.watch import Window, watch

NO_LIMIT = 100
DENSE = 0.3  # seconds between a load's lines, at most, for its count to show single seconds


def percent(fraction: float | None) -> float | None:
    """Of a fraction; None stays None."""
    return None if fraction is None else 100 * fraction


def figures(load: Load, program: Program, window: Window, limiter: curves.Curve) -> Record:
    """What one program got in the window, in percent of its time; `seconds_by` says who told `seconds`."""
    own = [] if load.overlaps else program.curve("kernel_seconds")
    by_load = bool(own) and (not limiter or curves.longest_gap(own, window.start, window.end) <= DENSE)
    counter = own if by_load else limiter
    seconds = [100 * one for one in curves.each_second(counter, window.start, window.end)]
    return {
        "own": percent(curves.rate(own, window.start, window.end)),
        "limiter": percent(curves.rate(limiter, window.start, window.end)),
        "rate": curves.rate(program.curve(load.counts), window.start, window.end),
        "seconds": [round(one, 2) for one in seconds],
        "seconds_by": "load" if by_load else "limiter",
    }


def one_row(bench: Bench, load: Load, program: Program, limit: int) -> Record:
    """Measure one load at the limit that is in force."""
    window = watch(bench, [program])
    return {
        "load": load.name,
        "limit": limit if program.sliced else None,
        "nvml": window.utilization,
        "clock": window.clock,
        **figures(load, program, window, window.limiter[0]),
        "cupti": percent(program.profile(bench.cupti if load.torch else 0)),
    }


def run(bench: Bench) -> None:
    """Every load, every limit."""
    for load in (one for one in ALL if available(one)):
        try:
            if bench.bare:
                without_weir(bench, load)
            in_slice(bench, load)
        except LoadError as error:
            print(f"alone/{load.name}: {error}", flush=True)


def without_weir(bench: Bench, load: Load) -> None:
    """One load as it is on a card that nobody limits."""
    row = f"{load.name}/bare"
    if bench.wants("alone", row):
        bench.afford(START + bench.settle + bench.seconds)
        with Program(bench, f"{load.name}-bare", load.command(), None) as program:
            program.await_line()
            bench.row("alone", row, lambda: one_row(bench, load, program, NO_LIMIT))


def in_slice(bench: Bench, load: Load) -> None:
    """One load in one slice, its limits one after another."""
    every = {limit: f"{load.name}/{limit}" for limit in (*sorted(bench.limits), NO_LIMIT)}
    rows = {limit: row for limit, row in every.items() if bench.wants("alone", row)}
    if not rows:
        return
    bench.afford(START + bench.settle + bench.seconds)
    with Program(bench, load.name, load.command(), min(rows)) as program:
        program.await_line()
        for limit, row in rows.items():
            program.set_cores(limit)
            bench.row("alone", row, partial(one_row, bench, load, program, limit))
