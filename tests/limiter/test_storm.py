"""Eight processes of a slice take and give memory while they are killed: not a byte too many or too few.

The short version runs here; `make soak` kills a thousand.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from limiter import layout, ledger
from limiter.pages import ControlDevice

from .conftest import CONTEXT, MIB, Machine, MakeSlice, Slice

PROCESSES = 8
LIMIT = PROCESSES * CONTEXT + 1024 * MIB  # less than they want: 8 · 32 · 32 MiB on average


@contextmanager
def storming(machine: Machine, slice_: Slice, seed: int) -> Iterator[subprocess.Popen[str]]:
    """One of the processes; it ends, whatever happens."""
    process = machine.start(slice_, str(seed), str(CONTEXT), name="memory_storm")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def charged(slice_: Slice) -> int:
    """The sum in the page as it stands, what the dead hold included."""
    data = (slice_.path / "rw/stats").read_bytes()
    header = layout.StatsHeader.from_buffer_copy(data)
    return ledger.Word.of(layout.StatsDevice.from_buffer_copy(data[header.header_size :]).used).total


def told(process: subprocess.Popen[str]) -> int:
    """Ask a process to rest, and how much it holds, context included."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("x")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, process.communicate()
    return int(line)


def test_kills_in_the_middle_lose_no_byte_and_let_nobody_have_one_too_many(
    machine: Machine, make_slice: MakeSlice, soak: bool
) -> None:
    slice_ = make_slice(ControlDevice(machine.uuids()[0], memory_limit=LIMIT, context_bytes=CONTEXT))
    chance = random.Random(20)
    watcher = machine.start(None, "watch", name="memory_storm")
    with ExitStack() as stack:
        living = [stack.enter_context(storming(machine, slice_, seed)) for seed in range(PROCESSES)]
        for seed in range(PROCESSES, PROCESSES + (1000 if soak else 40)):
            time.sleep(chance.uniform(0, 0.03))
            victim = chance.randrange(PROCESSES)
            living[victim].kill()
            living[victim].wait()
            living[victim] = stack.enter_context(storming(machine, slice_, seed))
            assert charged(slice_) <= LIMIT
            assert slice_.stats.devices[0].used <= LIMIT
        used = sum(told(process) for process in living)
        assert slice_.stats.devices[0].used == used
        largest, _ = watcher.communicate("x", timeout=60)
        assert used <= int(largest) <= LIMIT
    final = slice_.stats
    assert (final.devices[0].used, final.devices[0].hook_errors, final.processes) == (0, 0, ())
    assert final.reaped + final.dead >= PROCESSES
