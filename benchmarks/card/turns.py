"""Part `turns`: what the card, and NVML of it, makes of programs that the driver alone lets take turns.

Without Weir. Kernels have idle time of the host between them, so the card could run those of several programs
one after another; NVML counts the changes as use. What it shows beyond the kernels, for each launch, is what
deviceplugin/accounts.py must allow for a slice alone, and for slices side by side. Where it shows a card that
was never idle, no more can be said than that they take all that the kernels leave.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from benchmarks.card.alone import figures
from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME, Load, native
from benchmarks.card.program import Program
from benchmarks.card.watch import watch

FAST = native("fast", "2 µs, host 12 µs", 2, "--think-us", "12", "--queue", "1000")
SLOW = native("slow", "2 µs, host 48 µs", 2, "--think-us", "48", "--queue", "1000")
RARE = native("rare", "2 µs, host 200 µs", 2, "--think-us", "200")
RARER = native("rarer", "2 µs, host 1 ms", 2, "--think-us", "1000")
RAREST = native("rarest", "2 µs, host 5 ms", 2, "--think-us", "5000")
SELDOM = native("seldom", "100 µs, host 1 ms", 100, "--think-us", "1000")
GREEDY = BY_NAME["1ms"]
SIDE_BY_SIDE: tuple[tuple[Load, ...], ...] = (
    (FAST,),
    (FAST, FAST),
    (SLOW,),
    (SLOW, SLOW),
    (FAST, SLOW),
    (FAST, RARE),
    (FAST, RARER),
    (RARE, RARE),
    (RARER,),
    (RARER, RARER),
    (RARER, RARER, RARER),
    (RAREST, RAREST),
    (SELDOM,),
    (SELDOM, SELDOM),
    (GREEDY, GREEDY),
)
SECONDS, SETTLE = 4.0, 1.0  # at most
NEVER_IDLE = 97.0  # percent: NVML shows no more than 98 to 99 of it


def beyond_us(busy: float, kernels: float, launches: float) -> float | None:
    """Microseconds of use for each launch that are not kernels'; `busy` and `kernels` in percent of time."""
    return (busy - kernels) * 1e4 / launches if launches and busy < NEVER_IDLE else None


def one_row(bench: Bench, loads: tuple[Load, ...]) -> Record:
    """Run them for a while, bare."""
    with ExitStack() as stack:
        programs = [
            stack.enter_context(Program(bench, f"turns-{index}", load.command(), None))
            for index, load in enumerate(loads)
        ]
        for program in programs:
            program.await_line()
        window = watch(bench, programs)
    each = [figures(load, one, window, ()) for load, one in zip(loads, programs, strict=True)]
    if any(one["rate"] is None or one["own"] is None for one in each):
        raise LoadError("too few lines of a load")
    rates = [one["rate"] for one in each]
    own = [one["own"] for one in each]
    return {
        "loads": [load.title for load in loads],
        "nvml": window.utilization,
        "own": own,
        "rates": rates,
        "beyond_us": beyond_us(window.utilization, sum(own), sum(rates)),
    }


def run(bench: Bench) -> None:
    """Every program alone and beside others."""
    if not bench.bare:
        return
    short = replace(bench, seconds=min(bench.seconds, SECONDS), settle=min(bench.settle, SETTLE))
    for loads in SIDE_BY_SIDE:
        name = "+".join(load.name for load in loads)
        lasting = max(load.start for load in loads) + short.settle + short.seconds
        short.row("turns", name, partial(one_row, short, loads), lasting)
