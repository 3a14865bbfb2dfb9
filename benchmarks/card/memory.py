"""Part `memory`: every way of memory_ways.py past a limit of 1 GiB, without Weir and in a slice.

Held by the limit means: refused with the driver's own out-of-memory error, and NVML's figure for the
process (its context in it) not above the limit. NVML leaves managed memory out of that figure; the bytes
that were given stand beside it. What the way `plain` was given is what a bare CUDA program can use of 1
GiB."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.card.bench import Bench
from benchmarks.card.journal import Record
from benchmarks.card.program import Program
from benchmarks.memory_ways import WAYS

SCRIPT = Path(__file__).resolve().parents[1] / "memory_ways.py"
LIMIT = 1 << 30
MIB = 1 << 20
LASTING = 6.0  # seconds, at most: a context, and the program's end


def shown(bench: Bench, pid: int) -> int | None:
    """NVML's figure for a process, as soon as it has one."""
    for _ in range(20):
        for process in bench.nvml.processes(bench.gpu.uuid):
            if process.pid == pid:
                return process.used
        time.sleep(0.05)
    return None


def one_row(bench: Bench, way: str, sliced: bool) -> Record:
    """Let one program take what it gets."""
    name = f"memory-{way}" + ("" if sliced else "-bare")
    command = [sys.executable, str(SCRIPT), way]
    with Program(bench, name, command, cores=None, memory="1GiB" if sliced else None) as program:
        line = program.await_key("taken")
        used = shown(bench, line["pid"])
    return {
        "way": way,
        "sliced": sliced,
        "taken_mib": line["taken"] / MIB,
        "refused": line["refused"],
        "nvml_mib": None if used is None else used / MIB,
    }


def run(bench: Bench) -> None:
    """Every way; bare ones first, so that what the card itself refuses is known."""
    for sliced in (False, True) if bench.bare else (True,):
        for way in WAYS:
            row = f"{way}/{'1GiB' if sliced else 'bare'}"
            bench.row("memory", row, partial(one_row, bench, way, sliced), LASTING)


def held(record: Record) -> bool:
    """Whether the limit held, by both witnesses."""
    used = record["nvml_mib"]
    return record["refused"] == "CUDA_ERROR_OUT_OF_MEMORY" and (used is None or used <= LIMIT / MIB)
