"""Many processes on one card: shares, crashes at any moment, processes that are killed by the dozen."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FREE_WITH_ONE_CONTEXT = (143_155 - 518) << 20
ASK_FREE = """
from cuda.bindings import driver as d
assert d.cuInit(0)[0] == 0
assert d.cuCtxCreate(None, 0, 0)[0] == 0
print(int(d.cuMemGetInfo()[1]))
"""


def start(machine: Any, program: Path, case: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [program, case], env=machine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    machine.processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def shares(machine: Any, program: Path, processes: int) -> list[float]:
    """What processes that keep their queues full at the same time get of the card, in percent."""
    started = [start(machine, program, "greedy") for _ in range(processes)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [float(process.communicate(timeout=60)[0]) for process in started]


def free_bytes(machine: Any) -> int:
    result = machine.run(sys.executable, "-c", ASK_FREE)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


@pytest.mark.parametrize(("processes", "share"), [(1, 100), (2, 45), (3, 30)])
def test_greedy_processes_share_a_card(
    h200: Any, compile_c: Callable[..., Path], processes: int, share: int
) -> None:
    measured = shares(h200, compile_c("storm"), processes)
    assert all(abs(one - share) < 6 for one in measured), measured


@pytest.mark.parametrize("case", ["holding", "queueing"])
def test_a_process_that_dies_with_the_lock_held_stops_nobody(
    h200: Any, compile_c: Callable[..., Path], case: str
) -> None:
    assert h200.run(compile_c("crash", engine=True), case).returncode == -signal.SIGKILL
    result = h200.run(compile_c("streams"), "a_stream_waits_for_an_event")
    assert (result.returncode, result.stderr) == (0, "")
    assert free_bytes(h200) == FREE_WITH_ONE_CONTEXT


def test_killing_processes_at_random_moments_leaves_the_card_as_it_was(
    h200: Any, compile_c: Callable[..., Path]
) -> None:
    program = compile_c("storm")
    chance = random.Random(7)
    running = [start(h200, program, "everything") for _ in range(4)]
    for _ in range(60):
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        running.append(start(h200, program, "everything"))
    for process in running:
        assert process.poll() is None, "a process ended by itself"
        process.kill()
        process.wait()
    assert free_bytes(h200) == FREE_WITH_ONE_CONTEXT
    result = h200.run(compile_c("streams"), "host_functions_run_in_the_streams_order")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("ends", ["killed", "by itself"])
def test_a_process_that_ends_while_its_stream_waits_stops_nobody(
    h200: Any, compile_c: Callable[..., Path], ends: str
) -> None:
    process = start(h200, compile_c("words_ends"), "wait_for_ever")
    if ends == "killed":
        process.kill()
    process.communicate(timeout=30)  # closes what it reads
    assert process.returncode == (-signal.SIGKILL if ends == "killed" else 0)
    assert free_bytes(h200) == FREE_WITH_ONE_CONTEXT
    assert h200.run(compile_c("words"), "a_write_opens_a_wait_of_another_stream").returncode == 0


def test_a_killed_process_leaves_the_card_to_the_others(h200: Any, compile_c: Callable[..., Path]) -> None:
    assert h200.run(compile_c("crash", engine=True), "holding").returncode == -signal.SIGKILL
    assert shares(h200, compile_c("storm"), 1)[0] > 90
