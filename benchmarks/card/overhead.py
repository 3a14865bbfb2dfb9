"""Part `overhead`: what the limiter adds to a launch, to memory calls, and to the pace of a program.

Processes differ from each other by more than a limiter costs. So bare and sliced processes take turns,
several times over, and their medians are compared; and what a limit that does not bind adds is measured
inside one process, whose limit goes up and down between short phases.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.card import curves
from benchmarks.card.bench import START, Bench
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME, available
from benchmarks.card.program import Program, weir

CALLS = Path(__file__).resolve().parents[1] / "memory_calls.py"
LAUNCHES = ["load", "--kernel-us", "0", "--queue", "64", "--warmup", "0.2"]
NOT_BINDING = 99
NO_LIMIT = 100
TURNS = 5
PHASES = 5
MODES: dict[str, tuple[int | None, str | None]] = {
    "bare": (None, None),
    "memory limit": (None, "4GiB"),
    "memory limit, cores 99": (NOT_BINDING, "4GiB"),
}

Sample = Callable[[Program], dict[str, float]]


def launch_us(program: Program) -> dict[str, float]:
    """Microseconds for an empty launch."""
    return {"empty launch, µs": 1e6 / float(program.await_line("done")["launches_per_second"])}


def memory_us(program: Program) -> dict[str, float]:
    """Microseconds for calls about memory."""
    line = program.await_key("query_us")
    return {"allocate and free 2 MiB, µs": line["allocate_and_free_us"], "memory query, µs": line["query_us"]}


def in_turns(bench: Bench, command: list[str], sample: Sample) -> Record:
    """The medians of several processes of each mode, one after another in turn."""
    seen: dict[str, dict[str, list[float]]] = {mode: {} for mode in MODES}
    for turn in range(TURNS):
        for index, (mode, (cores, memory)) in enumerate(MODES.items()):
            with Program(bench, f"overhead-{turn}-{index}", command, cores, memory) as program:
                for name, value in sample(program).items():
                    seen[mode].setdefault(name, []).append(value)
    medians = {
        name: {mode: statistics.median(seen[mode][name]) for mode in MODES}
        for name in next(iter(seen.values()))
    }
    return {"medians": medians, "turns": TURNS}


def in_phases(bench: Bench, load: str, phase: float) -> Record:
    """One process whose limit is lifted and put back: its pace without a limit and with one of 99 %."""
    paces: dict[int, list[float]] = {NO_LIMIT: [], NOT_BINDING: []}
    with Program(bench, f"phases-{load}", BY_NAME[load].command(), NO_LIMIT) as program:
        program.await_line()
        for index in range(2 * PHASES):
            limit = (NO_LIMIT, NOT_BINDING)[index % 2]
            program.set_cores(limit)
            time.sleep(0.3)
            start = time.monotonic()
            time.sleep(phase + 0.3)
            pace = curves.rate(program.curve(BY_NAME[load].counts), start, start + phase)
            paces[limit] += [] if pace is None else [pace]
    without, with_limit = (statistics.median(paces[limit]) for limit in (NO_LIMIT, NOT_BINDING))
    return {
        "load": load,
        "without": without,
        "with_limit": with_limit,
        "added_percent": 100 * (without / with_limit - 1),
    }


def run(bench: Bench) -> None:
    """Launches and memory calls by turns of processes, programs by phases of one."""
    once = min(2.0, bench.seconds / 5)
    launches = [weir(), *LAUNCHES, "--seconds", f"{once:g}"]
    lasting = TURNS * len(MODES) * (once + 2)
    bench.row("overhead", "launch", partial(in_turns, bench, launches, launch_us), lasting)
    calls = [sys.executable, str(CALLS)]
    bench.row("overhead", "memory calls", partial(in_turns, bench, calls, memory_us), TURNS * len(MODES) * 2)
    phase = bench.seconds / 5
    for load in ("wait", "training-cpu", "training", "inference"):
        if available(BY_NAME[load]):
            lasting = START + 2 * PHASES * (phase + 0.6)
            bench.row("overhead", f"phases/{load}", partial(in_phases, bench, load, phase), lasting)
