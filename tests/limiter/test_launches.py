"""Every function of the driver that launches a kernel is counted and held back, in all its variants."""

from __future__ import annotations

import re
import time

import hatch_build
from limiter import headers
from limiter.pages import ControlDevice

from .conftest import SOURCES, Machine, MakeSlice, Slice

MS = 1_000_000
GATE = 60 * MS
KERNEL = MS // 10
LAUNCHES = [
    "cuLaunch",
    "cuLaunchGrid",
    "cuLaunchGridAsync",
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLaunchCooperativeKernel",
    "cuLaunchCooperativeKernel_ptsz",
    "cuLaunchCooperativeKernelMultiDevice",
    "cuGraphLaunch",
    "cuGraphLaunch_ptsz",
]
ON_THE_HOST = {"cuLaunchHostFunc", "cuLaunchHostFunc_ptsz"}  # they run on a thread of the host


def test_the_table_has_all_that_the_driver_has() -> None:
    compiler = [*hatch_build.compiler(), *hatch_build.include_flags(), f"-I{SOURCES}"]
    launching = re.compile(r"cu(Launch\w*|GraphLaunch\w*)")
    known = {name for name in headers.driver_symbols(compiler) if launching.fullmatch(name)}
    assert set(LAUNCHES) == known - ON_THE_HOST
    assert set(LAUNCHES) <= set(headers.lists(compiler, "hooks.h")["WEIR_LAUNCH_HOOKS"])


class Launcher:
    """A program that launches by one function after another when it is told to."""

    def __init__(self, machine: Machine, slice_: Slice, *functions: str) -> None:
        self.slice = slice_
        self.process = machine.start(slice_, *functions, name="launches")

    def launch(self) -> list[str]:
        """By the next function: its name and its result."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("x")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def end(self) -> None:
        """It has done all that it was told to, and nobody complained."""
        assert self.process.communicate(timeout=30)[1] == ""
        assert self.process.returncode == 0


def test_each_counts_once_and_waits_for_the_gate(machine: Machine, make_slice: MakeSlice) -> None:
    slice_ = make_slice(ControlDevice(uuid=machine.uuids()[0], core_limit=9000))
    launcher = Launcher(machine, slice_, *LAUNCHES)
    for count, function in enumerate(LAUNCHES, start=1):
        opens = time.monotonic_ns() + GATE
        slice_.update(gate=1, gate_deadline=opens)
        assert launcher.launch() == [function, "0"]
        assert time.monotonic_ns() >= opens, function
        card = slice_.stats.devices[0]
        assert (card.launches, card.hook_errors) == (count, 0), function
    assert card.gpu_time >= len(LAUNCHES) // 2 * KERNEL  # a first call that is slow was loading code
    launcher.end()


def test_one_kernel_on_two_cards_counts_and_waits_on_both(machine: Machine, make_slice: MakeSlice) -> None:
    slice_ = make_slice(*(ControlDevice(uuid=card, core_limit=9000) for card in machine.uuids()))
    launcher = Launcher(machine, slice_, "two")
    opens = time.monotonic_ns() + 5 * GATE
    slice_.update(device=1, gate=1, gate_deadline=opens)
    assert launcher.launch() == ["two", "0"]
    assert time.monotonic_ns() >= opens
    for card in slice_.stats.devices:
        assert (card.launches, card.hook_errors) == (1, 0)
    launcher.end()
