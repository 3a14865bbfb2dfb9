"""Pacing of real programs on the simulated card: shares in real time (coarsely), threads, processes, changes.

Exact shares are asserted in virtual time (test_pacing.py) and measured at length by benchmarks/shares.py; a
busy machine must not fail these.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from limiter.layout import FULL_CORES
from limiter.pages import ControlDevice
from simgpu.load import program
from tests.limiter.conftest import Machine, MakeSlice, Slice

MS = 1_000_000
BLOCKABLE = (1 << 31) - 1 & ~(1 << signal.SIGKILL - 1 | 1 << signal.SIGSTOP - 1)


@pytest.fixture
def card(machine: Machine) -> bytes:
    return machine.uuids()[0]


def start_load(machine: Machine, slice_: Slice, *arguments: str) -> subprocess.Popen[str]:
    shape = ["--kernel-us", "1000", "--queue", "64", "--no-calibrate"]
    return subprocess.Popen(
        [str(program()), *shape, *arguments], env=machine.inside(slice_), stdout=subprocess.PIPE, text=True
    )


def reports(load: subprocess.Popen[str]) -> list[dict[str, float]]:
    """What each process of a load says at its end."""
    output = load.communicate(timeout=60)[0]
    assert load.returncode == 0
    return [one for one in map(json.loads, output.splitlines()) if one["phase"] == "done"]


def shares(load: subprocess.Popen[str]) -> list[float]:
    """Of the card's time, for each process of a load, in percent."""
    return [100 * one["kernel_seconds"] / one["t"] for one in reports(load)]


def eventually(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def ready(machine: Machine, slice_: Slice, name: str, argument: str) -> subprocess.Popen[str]:
    """A program of programs/ that is set up, and goes on when it reads a byte."""
    program = machine.start(slice_, argument, name=name)
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    return program


def blocked_signals(pid: int, name: str) -> list[int]:
    """Of each thread of that name: which of the signals 1 to 31 it has blocked, as bits."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    lines = [(thread / "status").read_text().splitlines() for thread in threads]
    values = [dict(line.split(":\t", 1) for line in one) for one in lines]
    return [int(one["SigBlk"], 16) & ((1 << 31) - 1) for one in values if one["Name"] == name]


def close_slot(slice_: Slice, frame: int, wait: int) -> int:
    """Give it a quarter of a frame that begins after so many nanoseconds; the moment when it does."""
    opening = time.monotonic_ns() + wait
    slot = {"slot_frame": frame, "slot_offset": opening % frame, "slot_length": frame // 4}
    slice_.update(slot_deadline=opening + frame, **slot)
    return opening


class TestShares:
    def test_a_slice_gets_its_limit_and_the_stats_page_says_the_same(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=3000))
        (report,) = reports(start_load(machine, slice_, "--seconds", "3"))
        assert report["kernel_seconds"] / report["t"] == pytest.approx(0.3, abs=0.06)
        stats = slice_.stats.devices[0]
        assert stats.gpu_time == pytest.approx(report["kernel_seconds"] * 1e9, rel=0.1)
        assert stats.throttled_periods > 0
        assert stats.longest_kernel > 0.999 * MS  # events' times are floats
        assert stats.hook_errors == 0

    def test_two_slices_in_slots_get_theirs_beside_each_other(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        frame, cut = 50 * MS, 33 * MS
        slot = {"slot_deadline": time.monotonic_ns() + 60 * 10**9, "slot_frame": frame}
        first = make_slice(
            ControlDevice(card, core_limit=6000, slot_offset=0, slot_length=cut, **slot), name="first"
        )
        second = make_slice(
            ControlDevice(card, core_limit=3000, slot_offset=cut, slot_length=frame - cut, **slot),
            name="second",
        )
        loads = [start_load(machine, one, "--seconds", "4") for one in (first, second)]
        assert [shares(load) for load in loads] == [[pytest.approx(60, abs=6)], [pytest.approx(30, abs=6)]]

    def test_processes_of_one_slice_share_one_budget_and_none_starves(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=3000))
        each = shares(start_load(machine, slice_, "--seconds", "4", "--processes", "3"))
        assert len(each) == 3
        assert 24 < sum(each) < 36
        assert min(each) > 2

    @pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
    def test_siblings_go_on_whenever_one_is_stopped_or_killed(
        self, machine: Machine, make_slice: MakeSlice, card: bytes, how: signal.Signals
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=3000))
        stays = start_load(machine, slice_)
        for moment in range(6):  # wherever in its turn it is then
            goes = start_load(machine, slice_)
            both = slice_.stats.devices[0].launches + 100
            eventually(lambda both=both: slice_.stats.devices[0].launches > both)  # type: ignore[misc]
            time.sleep(0.003 * moment)
            goes.send_signal(how)
            alone = slice_.stats.devices[0].launches + 100  # a third of a second by its budget
            eventually(lambda alone=alone: slice_.stats.devices[0].launches > alone, seconds=10)  # type: ignore[misc]
            goes.kill()
            goes.communicate()
        stays.kill()
        stays.communicate()


class TestGates:
    """What is launched while a slot is closed waits in its stream, not in the call."""

    @pytest.mark.parametrize("then", ["sync", "reset", "exit"])
    def test_the_call_returns_and_the_kernel_begins_with_the_slot(
        self, machine: Machine, make_slice: MakeSlice, card: bytes, then: str
    ) -> None:
        """It returns 80 ms before; a busy machine may miss that now and then."""
        slice_ = make_slice(ControlDevice(card, core_limit=5000))
        assert any(self.in_time(machine, slice_, then) for _ in range(5))

    @staticmethod
    def in_time(machine: Machine, slice_: Slice, then: str) -> bool:
        """Whether the call had returned before the slot opened, and a reset or an end was over."""
        slice_.update(slot_deadline=0)
        program = ready(machine, slice_, "gated", then)
        frame = 20_000 * MS
        opening = close_slot(slice_, frame, 500 * MS)
        output, errors = program.communicate("x", timeout=30)
        over = time.monotonic_ns()
        assert program.returncode == 0, errors
        returned, complete, ended = map(int, output.split())
        if then == "sync":
            assert opening <= ended < opening + frame // 4
            return returned < opening and not complete
        return (
            over < opening and not complete
        )  # a context's end opens its gates, a process's closes its streams

    def test_the_thread_that_opens_them_takes_no_signal(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=9000))
        program = ready(machine, slice_, "gated_contexts", "1000000")
        slot = {"slot_frame": 2 * MS, "slot_length": MS, "slot_deadline": time.monotonic_ns() + 60_000 * MS}
        slice_.update(**slot)
        assert program.stdin
        program.stdin.write("x")
        program.stdin.flush()
        eventually(lambda: blocked_signals(program.pid, "weir-gates") == [BLOCKABLE])
        program.kill()
        program.communicate()

    def test_contexts_that_end_leave_their_page_to_the_next(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=9000))
        program = ready(machine, slice_, "gated_contexts", "1000")
        slot = {"slot_frame": 2 * MS, "slot_length": MS, "slot_deadline": time.monotonic_ns() + 60_000 * MS}
        slice_.update(**slot)
        output, errors = program.communicate("x", timeout=60)
        assert program.returncode == 0, errors
        assert int(output) <= 1


class TestChangesAtRunTime:
    def test_a_gate_stops_launches_and_its_deadline_lets_them_go_on(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card))
        load = start_load(machine, slice_)
        eventually(lambda: slice_.stats.devices[0].launches > 0)
        slice_.update(gate=1, gate_deadline=time.monotonic_ns() + 2_000 * MS)
        eventually(lambda: slice_.stats.devices[0].waiting > 0)
        held = slice_.stats.devices[0].launches
        time.sleep(0.2)
        assert slice_.stats.devices[0].launches == held
        eventually(lambda: slice_.stats.devices[0].launches > held)
        load.terminate()
        load.communicate()

    def test_a_limit_that_is_taken_away_frees_a_waiting_launch_at_once(
        self, machine: Machine, make_slice: MakeSlice, card: bytes
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=1))  # a millisecond of work costs ten seconds
        load = start_load(machine, slice_)
        eventually(lambda: slice_.stats.devices[0].waiting > 0)
        before = slice_.stats.devices[0].launches
        slice_.update(core_limit=10_000)
        eventually(lambda: slice_.stats.devices[0].launches > before + 100, seconds=5)
        load.terminate()
        load.communicate()


class TestManyThreads:
    MODES: ClassVar = ["own", "shared", "default", "thread", "contexts", "away", "brief", "fork"]

    @pytest.mark.parametrize(
        ("mode", "limit"), [*((mode, 9000) for mode in MODES), ("many", 9000), ("many", FULL_CORES)]
    )
    def test_no_launch_is_lost_or_counted_twice(
        self, machine: Machine, make_slice: MakeSlice, card: bytes, mode: str, limit: int
    ) -> None:
        slice_ = make_slice(ControlDevice(card, core_limit=limit))
        process = machine.start(slice_, mode, "4", "3000", name="pacing_threads")
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert slice_.stats.devices[0].launches == int(output)
        assert slice_.stats.devices[0].hook_errors == 0
