"""Part `latency`: an inference step of 1.6 ms (a graph of 16 kernels) at 30 %, alone and beside a greedy
neighbour.

Steps come in a closed loop that thinks for 8 ms after each (17 % of the card), or at random at 5 % load,
where the time is counted from a step's arrival. The neighbour keeps 1 ms kernels queued at 60 %, for three
lengths of frame, none so short that it would not hold three of the steps; without Weir it is the driver alone
that shares the card. Medians and 99th percentiles are right to 1 %.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.card.bench import Bench
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME
from benchmarks.card.program import Program, weir
from limiter.pages import read_control

STEP = ["load", "--kernel-us", "100", "--graph", "16", "--wait", "--latency"]
ARRIVALS = {"in a closed loop": ["--idle-ms", "8"], "at random": ["--every-ms", "32"]}
SHARE, NEIGHBOUR = 30, 60
FRAMES = (20, 50, 100)
START = 4.0  # seconds of the neighbour's start and the step's


@dataclass(frozen=True)
class Place:
    """Where the step runs: its slice and neighbour, by name in the table."""

    name: str
    cores: int | None
    neighbour: bool = False
    frame: int | None = None


PLACES = (
    Place("no Weir, alone", None),
    Place("30 %, alone", SHARE),
    Place("no Weir, beside a neighbour", None, neighbour=True),
    *(Place("30 %, beside a neighbour at 60 %", SHARE, neighbour=True, frame=frame) for frame in FRAMES),
)


def row_name(arrivals: str, place: Place) -> str:
    """As `at random/30 %, alone`."""
    return f"{arrivals}/{place.name}" + (f"/{place.frame} ms" if place.frame else "")


def frame_ms(program: Program) -> float:
    """Milliseconds of the frame of time slots in which its slice is now."""
    return read_control(program.control).devices[0].slot_frame / 1e6


def one_row(bench: Bench, place: Place, arrivals: str) -> Record:
    """Run the step for as long as a row takes, and its neighbour with it."""
    lasting = ["--warmup", f"{bench.settle:g}", "--seconds", f"{bench.seconds:g}"]
    command = [weir(), *STEP, *ARRIVALS[arrivals], *lasting]
    with ExitStack() as stack:
        if place.neighbour:
            cores = None if place.cores is None else NEIGHBOUR
            greedy = Program(bench, "greedy", BY_NAME["1ms"].command(), cores, frame=place.frame)
            stack.enter_context(greedy).await_line()
        step = stack.enter_context(Program(bench, "step", command, place.cores, frame=place.frame))
        time.sleep(bench.settle + bench.seconds / 2)
        in_force = frame_ms(step) if place.frame else None
        line = step.await_line("done")
    return {
        "arrivals": arrivals,
        "where": place.name,
        "frame": place.frame,
        "in_force": in_force,
        "p50_ms": line["p50_us"] / 1000,
        "p99_ms": line["p99_us"] / 1000,
        "steps": line["launches"],
    }


def run(bench: Bench) -> None:
    """Both kinds of arrivals in every place."""
    for arrivals in ARRIVALS:
        for place in PLACES:
            if place.cores is None and not bench.bare:
                continue
            measure = partial(one_row, bench, place, arrivals)
            bench.row("latency", row_name(arrivals, place), measure, START + bench.settle + bench.seconds)
