"""Part `memory`: every way of memory_ways.py and shared_ways.py past a limit, without Weir and in a slice.

Held by the limit means: refused with the driver's own out-of-memory error, and NVML's figure for the
process (its context in it) not above the limit. Where all that was asked for was given, that figure alone
decides: graphs that are only uploaded share their memory. It leaves out managed memory and what
another process holds, so such a way is held only where it is refused; the bytes that were given stand
beside it. What the way `plain` was given is what a bare CUDA program can use of 1
GiB. The limit is 1 GiB, and 2 GiB for the ways that need two contexts."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.card.bench import Bench
from benchmarks.card.journal import Record
from benchmarks.card.program import Program
from benchmarks.memory_ways import WAYS

SCRIPTS = Path(__file__).resolve().parents[1]
SHARED = {"descriptors": 1, "imported": 1, "opened": 2, "pool-opened": 2}  # GiB
UNSEEN = {"managed", *SHARED}  # not in NVML's figure for the process
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
    script = "shared_ways.py" if way in SHARED else "memory_ways.py"
    command = [sys.executable, str(SCRIPTS / script), way]
    limit = SHARED.get(way, 1)
    with Program(bench, name, command, cores=None, memory=f"{limit}GiB" if sliced else None) as program:
        line = program.await_key("taken")
        used = shown(bench, line["pid"])
    return {
        "way": way,
        "sliced": sliced,
        "limit_mib": limit << 10,
        "taken_mib": line["taken"] / MIB,
        "refused": line["refused"],
        "nvml_mib": None if used is None else used / MIB,
    }


def run(bench: Bench) -> None:
    """Every way; bare ones first, so that what the card itself refuses is known."""
    for sliced in (False, True) if bench.bare else (True,):
        for way in (*WAYS, *SHARED):
            row = f"{way}/{f'{SHARED.get(way, 1)}GiB' if sliced else 'bare'}"
            bench.row("memory", row, partial(one_row, bench, way, sliced), LASTING)


def held(record: Record) -> bool:
    """Whether the limit held, by both witnesses, or by the card's own where nothing was refused."""
    used, limit = record["nvml_mib"], record.get("limit_mib", 1024)
    if record["refused"] is None:
        return used is not None and used <= limit and record["way"] not in UNSEEN
    return record["refused"] == "CUDA_ERROR_OUT_OF_MEMORY" and (used is None or used <= limit)
