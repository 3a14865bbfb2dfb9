"""Part `alone`: every load by itself: without Weir, then in one slice whose limit is raised from row to row.

Raised and never lowered: what a program has queued under one limit would be a debt under a lower one. GPU
time is NVML's utilisation of the card over the window. Beside it stand the load's own finished kernels
(their nominal length, so work), the limiter's counter, and for PyTorch the kernel time by CUPTI: what a step
takes of the card, seen in a phase of its own, times the window's pace; for CUPTI slows programs of short
kernels down, but not their kernels. Single seconds are told by the load's count where its lines are close
enough together (a load that is held back writes none), else by the limiter's counter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.card import curves
from benchmarks.card.bench import Bench, LoadError
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
    by_load = bool(own) and (not limiter or dense(own, window))
    return {
        "own": percent(curves.rate(own, window.start, window.end)),
        "limiter": percent(curves.rate(limiter, window.start, window.end)),
        "rate": curves.rate(program.curve(load.counts), window.start, window.end),
        "seconds": single_seconds(own if by_load else limiter, window, 100),
        "seconds_by": "load" if by_load else "limiter",
    }


def dense(curve: curves.Curve, window: Window) -> bool:
    """Whether its samples show single seconds."""
    return curves.longest_gap(curve, window.start, window.end) <= DENSE


def single_seconds(curve: curves.Curve, window: Window, scale: float) -> list[float]:
    """The growth in each second."""
    return [round(scale * one, 2) for one in curves.each_second(curve, window.start, window.end)]


def by_cupti(program: Program, window: Window, rate: float | None, seconds: float) -> Record:
    """GPU time by CUPTI's kernel time of a step and the window's steps; `cupti` is its own phase's alone."""
    seen = program.profile(seconds)
    if not seen:
        return {"cupti": None}
    found: Record = {"cupti": percent(seen["kernel_share"])}
    if not rate or not seen["profiled_steps"]:
        return found
    profiled_rate = seen["profiled_steps"] / seen["profiled_seconds"]
    step_percent = 100 * seen["kernel_share"] / profiled_rate
    found |= {"kernel_time": step_percent * rate, "cupti_pace": 100 * profiled_rate / rate}
    steps = program.curve("steps")
    if dense(steps, window):
        found |= {"seconds": single_seconds(steps, window, step_percent), "seconds_by": "CUPTI"}
    return found


def one_row(bench: Bench, load: Load, program: Program, limit: int) -> Record:
    """Measure one load at the limit that is in force."""
    window = watch(bench, [program])
    seen = figures(load, program, window, window.limiter[0])
    return {
        "load": load.name,
        "limit": limit if program.sliced else None,
        "process": program.began,
        "nvml": window.utilization,
        "clock": window.clock,
        **seen,
        **by_cupti(program, window, seen["rate"], bench.cupti if load.torch else 0),
    }


def run(bench: Bench) -> None:
    """Every load at every limit, PyTorch's first; without Weir at the end, but for those that use little."""
    rows: list[tuple[Callable[[Bench, Load], None], Load]] = []
    loads = sorted(filter(available, ALL), key=lambda load: not load.torch)
    for load in loads:
        rows += [] if load.fills else [(without_weir, load)]
        rows.append((in_slice, load))
    rows += [(without_weir, load) for load in loads if load.fills]
    for measure, load in rows:
        try:
            measure(bench, load)
        except LoadError as error:
            print(f"alone/{load.name}: {error}", flush=True)


def without_weir(bench: Bench, load: Load) -> None:
    """One load as it is on a card that nobody limits."""
    row = f"{load.name}/bare"
    if bench.bare and bench.wants("alone", row):
        bench.afford(load.start + bench.settle + bench.seconds)
        with Program(bench, f"{load.name}-bare", load.command(), None) as program:
            program.await_line()
            bench.row("alone", row, lambda: one_row(bench, load, program, NO_LIMIT))


def in_slice(bench: Bench, load: Load) -> None:
    """One load in one slice, its limits one after another."""
    every = {limit: f"{load.name}/{limit}" for limit in (*sorted(bench.limits), NO_LIMIT)}
    rows = {limit: row for limit, row in every.items() if bench.wants("alone", row)}
    if not rows:
        return
    bench.afford(load.start + bench.settle + bench.seconds)
    with Program(bench, load.name, load.command(), min(rows)) as program:
        program.await_line()
        for limit, row in rows.items():
            program.set_cores(limit)
            bench.row("alone", row, partial(one_row, bench, load, program, limit))
