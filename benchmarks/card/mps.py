"""Part `mps`: slices that an MPS daemon holds, and slices of Weir's own while one lives.

What a share of multiprocessors is shows in two loads: kernels of one block need one multiprocessor, so a
share costs them nothing; kernels of more blocks than the card can hold at once get as much done as they have
multiprocessors. Beside each row stands what the limiter counted meanwhile, and who NVML shows: it lists an
MPS server's clients apart. Memory is taken until it is refused, by MPS alone and with Weir.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from benchmarks.card.alone import figures
from benchmarks.card.bench import Bench, LoadError
from benchmarks.card.daemon import Daemon
from benchmarks.card.journal import Record
from benchmarks.card.loads import BY_NAME, SMS, Load, available, native
from benchmarks.card.memory import MIB, SCRIPTS
from benchmarks.card.program import Program
from benchmarks.card.watch import watch
from limiter.pages import PageError, read_control, read_stats

PATIENCE = 30.0  # seconds until a program must work: it is all to be over in two minutes
FILLS = native(
    "fill", "1 ms kernels of more blocks than fit", 1000, "--grid", str(64 * SMS), "--no-calibrate"
)
AUDITS = 2.5  # seconds in which the agent has held a ledger against NVML twice
MEMORY_LIMIT = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M"}


def listed(bench: Bench) -> list[list[Any]]:
    """Who is on the card by which of NVML's two lists: the list, the program's name here, and MiB."""
    lists = {
        "compute": pynvml.nvmlDeviceGetComputeRunningProcesses,
        "mps": pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
    }
    found = []
    for name, ask in lists.items():
        try:
            processes = ask(bench.handle())
        except pynvml.NVMLError as error:
            found.append([name, str(error), 0])
            continue
        found += [[name, command(one.pid), (one.usedGpuMemory or 0) // MIB] for one in processes]
    return found


def command(pid: int) -> str:
    """The name of a process; a dash where its ID means nothing here."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "\u2013"


def counted(program: Program) -> Record:
    """What Weir knows of a program's slice: that it measures, and what the agent found."""
    try:
        stats = read_stats(program.stats).devices[0]
        page = read_control(program.stats.parents[1] / "control").devices[0]
    except PageError:
        return {}
    return {
        "launches": stats.launches,
        "gpu_seconds": stats.gpu_time / 1e9,
        "held_back_seconds": stats.throttled_time / 1e9,
        "ledger_mib": stats.used // MIB,
        "refused_by_ledger": stats.denied_limit,
        "refused_by_driver": stats.denied_device,
        "unaccounted_mib": page.unaccounted // MIB,
        "context_mib": page.context_bytes // MIB,
    }


def measured(
    bench: Bench, load: Load, programs: Sequence[Program], backend: str, asked: Sequence[int]
) -> Record:
    """One row of programs that run the same load."""
    window = watch(bench, programs)
    limiters = zip(programs, window.limiter, strict=True)
    each = [{**figures(load, one, window, limiter), **counted(one)} for one, limiter in limiters]
    return {
        "load": load.title,
        "backend": backend,
        "asked": list(asked),
        "nvml": window.utilization,
        "clock": window.clock,
        "given": [one["limiter"] if one["own"] is None else one["own"] for one in each],
        "each": each,
        "listed": listed(bench),
    }


def shares(bench: Bench, daemon: Daemon, load: Load, backend: str, alone: bool = False) -> None:
    """30 % alone; then, unless `alone`, 60 beside it, and 60 alone."""
    rows = [f"{load.name}/{backend} {asked}" for asked in ("30", "60+30", "60")]
    if not any(bench.wants("mps", row) for row in (rows[:1] if alone else rows)):
        return

    def start(cores: int) -> Program:
        name = f"mps-{load.name}-{backend}-{cores}"
        return Program(
            bench, name, load.command(), cores, backend=backend, more=daemon.environment, patience=PATIENCE
        )

    def row(name: str, programs: Sequence[Program], *asked: int) -> None:
        bench.row("mps", name, partial(measured, bench, load, programs, backend, asked))

    bench.afford(2 * (bench.settle + bench.seconds))
    with ExitStack() as stack:
        with start(30) as small:
            small.await_line()
            row(rows[0], [small], 30)
            if alone:
                return
            large = stack.enter_context(start(60))
            large.await_line()
            row(rows[1], [large, small], 60, 30)
        row(rows[2], [large], 60)


def bare(bench: Bench, load: Load) -> None:
    """What a load gets done without anybody, and without MPS."""
    row = f"{load.name}/bare"
    if bench.wants("mps", row):
        bench.afford(bench.settle + bench.seconds)
        with Program(bench, f"mps-{load.name}-bare", load.command(), None, patience=PATIENCE) as program:
            program.await_line()
            bench.row("mps", row, lambda: measured(bench, load, [program], "nobody", ()))


def one_memory_row(bench: Bench, daemon: Daemon, backend: str | None) -> Record:
    """A bare program takes buffers of 64 MiB in 1 GiB until it is refused; `backend` None: MPS alone."""
    more = daemon.environment | ({} if backend else MEMORY_LIMIT)
    memory, name = "1GiB" if backend else None, f"mps-memory-{backend or 'alone'}"
    ways = [sys.executable, str(SCRIPTS / "memory_ways.py"), "plain"]
    with Program(bench, name, ways, None, memory, backend=backend, more=more, patience=PATIENCE) as program:
        line = program.await_key("taken")
        time.sleep(AUDITS)
        return {
            "backend": backend or "MPS alone",
            "taken_mib": line["taken"] / MIB,
            "refused": line["refused"],
            "listed": listed(bench),
            **counted(program),
        }


def under(bench: Bench, daemon: Daemon) -> None:
    """Everything that needs the daemon, what is told in fewest words first."""
    for backend in (None, "mps", "weir"):
        name = f"memory/{backend or 'MPS alone'}"
        bench.row("mps", name, partial(one_memory_row, bench, daemon, backend), 6)
    cases = (
        (FILLS, "mps", False),
        (BY_NAME["matmul"], "mps", False),
        (FILLS, "weir", False),
        (BY_NAME["1ms"], "mps", True),
    )
    for load, backend, alone in cases:
        if not available(load):
            continue
        try:
            shares(bench, daemon, load, backend, alone)
        except LoadError as error:
            print(f"mps/{load.name}/{backend}: {error}", flush=True)


def without(bench: Bench) -> None:
    """Two loads with neither MPS nor Weir."""
    for load in (FILLS, BY_NAME["matmul"]):
        if available(load):
            bare(bench, load)


def ask_for_rows(bench: Bench) -> None:
    """Ask the bench for all that `run` would ask for, with no daemon."""
    if not bench.simulate:
        under(bench, Daemon(bench.journal.directory))
        without(bench)


def run(bench: Bench) -> None:
    """All of it; nothing on a simulated card, which no daemon serves."""
    if bench.simulate:
        print("mps: a simulated card has no MPS", flush=True)
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the daemon is ended as well
    try:
        with Daemon(bench.journal.directory) as daemon:
            under(bench, daemon)
        without(bench)
    except LoadError as error:
        print(f"mps: {error}", flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)
