"""Part `overhead`: what the limiter adds to a launch, to memory calls, and to the pace of a program.

Processes differ from each other by more than a limiter costs. So bare and sliced processes take turns,
several times over, each turn in the other order than the one before: within a turn each is held against the
bare one, and the median of the turns counts, with their spread beside it. What a limit that does not bind
adds to a program is measured inside one process (phases.py); so is what one of 50 % takes from programs that
use less. `launch-bound` loads launch as PyTorch does
where the CPU sets the pace: short kernels with the host at work between them, waited for, or far ahead.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.card import phases
from benchmarks.card.bench import Bench
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME, LAUNCH_BOUND, available, native
from benchmarks.card.program import Program, weir

CALLS = Path(__file__).resolve().parents[1] / "memory_calls.py"
LAUNCHES = (native("launch", "empty launch", 0, "--queue", "64"), *LAUNCH_BOUND)
PHASES = (
    ("training-cpu", phases.NOT_BINDING),
    ("inference", phases.NOT_BINDING),
    ("training", phases.NOT_BINDING),
    ("wait", phases.NOT_BINDING),
    ("training-cpu", 50),
    ("inference", 50),
    ("elementwise", 70),  # some hosts don't fill the card with it: a limit must not add to that
    ("elementwise", 90),
    *((load.name, limit) for load in LAUNCH_BOUND for limit in (phases.NOT_BINDING, 50)),
)
TURNS = 5
NEEDS = 1.5  # seconds that a short process takes beside its window
MODES: dict[str, tuple[int | None, str | None]] = {
    "bare": (None, None),
    "memory limit": (None, "4GiB"),
    "memory limit, cores 99": (phases.NOT_BINDING, "4GiB"),
}

Sample = Callable[[Program], dict[str, float]]


def launch_us(title: str, program: Program) -> dict[str, float]:
    """Microseconds for a launch and what the load does around it."""
    return {title: 1e6 / float(program.await_line("done")["launches_per_second"])}


def memory_us(program: Program) -> dict[str, float]:
    """Microseconds for calls about memory."""
    line = program.await_key("query_us")
    return {"allocate and free 2 MiB, µs": line["allocate_and_free_us"], "memory query, µs": line["query_us"]}


def in_turns(bench: Bench, command: list[str], sample: Sample) -> Record:
    """What several processes of each mode took, turn by turn, and their medians."""
    seen: dict[str, dict[str, list[float]]] = {}
    for turn in range(TURNS):
        for mode in list(MODES)[:: -1 if turn % 2 else 1]:
            cores, memory = MODES[mode]
            name = f"overhead-{turn}-{list(MODES).index(mode)}"
            with Program(bench, name, command, cores, memory) as program:
                for what, value in sample(program).items():
                    seen.setdefault(what, {one: [] for one in MODES})[mode].append(value)
    medians = {
        what: {mode: statistics.median(values) for mode, values in by_mode.items()}
        for what, by_mode in seen.items()
    }
    return {"medians": medians, "seen": seen, "turns": TURNS}


def run(bench: Bench) -> None:
    """Programs by phases of one process first, then launches and memory calls by turns of processes."""
    blocks = max(1, min(phases.BLOCKS, round(2 * bench.seconds)))
    for name, limit in PHASES:
        if available(BY_NAME[name]):
            row = f"phases/{name}" + ("" if limit == phases.NOT_BINDING else f"/{limit}")
            measure = partial(phases.one_row, bench, name, limit, blocks)
            bench.row("overhead", row, measure, BY_NAME[name].start + phases.LASTING)
    once = min(2.0, bench.seconds / 4)
    for load in LAUNCHES:
        command = [weir(), "load", *load.arguments, "--warmup", "0.2", "--seconds", f"{once:g}"]
        measure = partial(in_turns, bench, command, partial(launch_us, f"{load.title}, µs"))
        bench.row("overhead", load.name, measure, TURNS * len(MODES) * (once + NEEDS))
    calls = [sys.executable, str(CALLS)]
    lasting = TURNS * len(MODES) * (0.5 + NEEDS)
    bench.row("overhead", "memory calls", partial(in_turns, bench, calls, memory_us), lasting)
