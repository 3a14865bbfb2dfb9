"""What the limiter adds to a process's start and to calls about memory, over a driver that does nothing.

Each figure is measured bare and in a slice in turn, in one run. A start is from before the fork until the
process has been waited for, the median of many. An allocation and a free are of 2 MiB with 10,000 live, a
query asks for the memory that is free; the quickest round of each counts. Two hundred processes are started
at once in one slice. Prints JSON; ends with 1 when a goal is missed.

    python benchmarks/process_cost.py [--rounds 300]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import hatch_build
from benchmarks.arguments import Parser, whole
from benchmarks.launch_cost import LIBRARY, NATIVE, compile_into, make_slice
from limiter.layout import FULL_CORES

AT_ONCE = 200
GOALS = {
    "start without a GPU, µs": 100.0,
    "start with a GPU, µs": 500.0,
    "200 at once, s": 1.0,
    "allocation, ns": 150.0,
    "free, ns": 100.0,
    "memory query, ns": 500.0,  # an H200's driver needs 7,050
}

Environment = Mapping[str, str]


def compile_program(directory: Path, name: str) -> Path:
    program = directory / name
    command = [*hatch_build.compiler(), *hatch_build.COMMON, "-o", str(program), str(NATIVE / f"{name}.c")]
    subprocess.run([*command, "-ldl"], check=True)
    return program


def start(command: list[str], environment: Environment) -> int:
    return os.posix_spawn(command[0], command, environment)


def end(pid: int) -> None:
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit("process_cost: a program failed")


def starts(command: list[str], environments: list[Environment], rounds: int) -> list[float]:
    """Median microseconds of a process in each environment, taken in turn."""
    taken: list[list[float]] = [[] for _ in environments]
    for _ in range(rounds):
        for times, environment in zip(taken, environments, strict=True):
            began = time.perf_counter()
            end(start(command, environment))
            times.append((time.perf_counter() - began) * 1e6)
    return [statistics.median(times) for times in taken]


def at_once(command: list[str], environment: Environment) -> float:
    began = time.perf_counter()
    for pid in [start(command, environment) for _ in range(AT_ONCE)]:
        end(pid)
    return time.perf_counter() - began


def memory_calls(program: Path, environment: Environment) -> list[float]:
    """Nanoseconds of an allocation, a free and a query."""
    result = subprocess.run(
        [program, "300", "10000"], env=environment, check=True, capture_output=True, text=True
    )
    return [float(word) for word in result.stdout.split()]


def measure(directory: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Each figure bare and in the slice."""
    compile_into(directory)
    first_use, alloc_cost = (compile_program(directory, name) for name in ("first_use", "alloc_cost"))
    slice_directory = make_slice(directory / "slice", FULL_CORES)
    bare = {**os.environ, "LD_LIBRARY_PATH": str(directory)}
    held = {**bare, "LD_PRELOAD": str(LIBRARY), "WEIR_SLICE_DIR": str(slice_directory)}
    figures = {}
    for name, command in (("without a GPU", [str(first_use)]), ("with a GPU", [str(first_use), "gpu"])):
        without, within = starts(command, [bare, held], rounds)
        figures[f"start {name}, µs"] = (without, within)
    gpu = [str(first_use), "gpu"]
    figures[f"{AT_ONCE} at once, s"] = (at_once(gpu, bare), at_once(gpu, held))
    figures |= zip(
        ("allocation, ns", "free, ns", "memory query, ns"),
        zip(memory_calls(alloc_cost, bare), memory_calls(alloc_cost, held), strict=True),
        strict=True,
    )
    return figures


def main() -> int:
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=whole(1, 1_000_000), default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = measure(Path(temporary), options.rounds)
    report = {
        name: {
            "bare": round(bare, 2),
            "in a slice": round(held, 2),
            "ratio": round(held / bare, 2),
            "added": round(held - bare, 2),
            "goal": GOALS[name],
        }
        for name, (bare, held) in figures.items()
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))
    at_once_name = f"{AT_ONCE} at once, s"
    missed = [
        name
        for name, one in report.items()
        if one["in a slice" if name == at_once_name else "added"] > GOALS[name]
    ]
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
