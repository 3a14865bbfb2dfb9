"""Processes come and go in every way, and what they held with them; pages that cannot be used hold firm."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path

import pytest

from limiter import layout

from .client import OK, OPEN, OUT_OF_MEMORY, Client
from .conftest import CONTEXT, LIMIT, MIB, Machine, Slice


def started(machine: Machine, slice_: Slice, *commands: str) -> subprocess.Popen[str]:
    """A process that has carried out the commands and waits."""
    process = machine.start(slice_, *commands, "wait")
    assert process.stdout
    while not process.stdout.readline().startswith("waiting"):
        assert process.poll() is None, process.stderr
    return process


def test_what_a_killed_process_held_is_there_for_the_next(machine: Machine, slice_: Slice) -> None:
    victim = started(machine, slice_, *OPEN, f"alloc:{1000 * MIB}")
    survivor = started(machine, slice_, *OPEN)
    victim.kill()
    victim.wait(30)
    assert slice_.stats.dead == 1
    survivor.communicate("x")
    lines = machine.run(slice_, *OPEN, f"alloc:{1400 * MIB}")
    assert lines[-1] == ("alloc", OK)
    assert slice_.stats.reaped >= 1


@pytest.mark.parametrize("question", ["info", "nvml"])
def test_what_the_dead_held_is_free_for_who_asks_before_he_takes(
    machine: Machine, slice_: Slice, question: str
) -> None:
    survivor = started(machine, slice_, *OPEN)
    for _ in range(3):
        victim = started(machine, slice_, *OPEN, f"alloc:{200 * MIB}")
        victim.kill()
        victim.communicate()
    lines = machine.run(slice_, *OPEN, question)
    assert str(LIMIT - 2 * CONTEXT) in lines[-1]
    survivor.communicate("x")


def test_a_process_that_closes_every_descriptor_keeps_its_slot(machine: Machine, slice_: Slice) -> None:
    process = started(machine, slice_, *OPEN, f"alloc:{1000 * MIB}", "closeall")
    assert machine.run(slice_, *OPEN, f"alloc:{100 * MIB}")[-1] == ("alloc", OUT_OF_MEMORY)
    assert [one.pid for one in slice_.stats.processes] == [process.pid]
    process.communicate("x")


def test_of_all_that_a_process_has_mapped_its_end_lets_go_of_the_slot_s_lock_last(
    machine: Machine, slice_: Slice
) -> None:
    """Linux closes mapped files from high addresses to low ones: until then the card may hold what it had."""
    process = started(machine, slice_, *OPEN)
    lowest = Path(f"/proc/{process.pid}/maps").read_text().splitlines()[0].split()
    assert (lowest[1], lowest[-1]) == ("---s", str(slice_.path / "rw/stats"))
    process.communicate("x")


def test_a_child_forked_before_the_gpu_is_used_has_a_slot_of_its_own(machine: Machine, slice_: Slice) -> None:
    lines = machine.run(slice_, "fork", *OPEN, f"alloc:{100 * MIB}")
    assert [line[1] for line in lines] == [OK, OK, OK]
    assert slice_.stats.devices[0].allocations == 1


def test_a_child_of_a_gpu_process_leaves_its_parent_s_charge_alone(machine: Machine, slice_: Slice) -> None:
    parent = started(machine, slice_, *OPEN, f"alloc:{100 * MIB}", "fork", "free:0", "total", "nvml")
    assert [one.pid for one in slice_.stats.processes] == [parent.pid]
    assert slice_.stats.devices[0].used == CONTEXT + 100 * MIB
    parent.communicate("x")


def test_a_child_forked_among_threads_waits_for_none_of_them(machine: Machine, slice_: Slice) -> None:
    for _ in range(25):
        process = machine.start(slice_, name="fork_among_threads")
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")


def test_with_no_slot_left_memory_is_refused_with_one_line(machine: Machine, slice_: Slice) -> None:
    descriptor = os.open(slice_.path / "rw/stats", os.O_RDWR)
    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole_file)
    process = machine.start(slice_, "init", "retainprimary", "context")
    output, errors = process.communicate(timeout=30)
    assert output.split() == ["init", OK, "retainprimary", OUT_OF_MEMORY, "context", OUT_OF_MEMORY]
    assert errors.count("\n") == 1
    assert "slot" in errors
    card = slice_.stats.devices[0]
    assert (card.denied_policy, card.denied_limit, card.used) == (2, 0, 0)
    os.close(descriptor)
    assert machine.run(slice_, *OPEN)[-1] == ("retainprimary", OK)


def test_one_process_more_than_a_page_has_slots_is_refused_until_one_has_ended(
    machine: Machine, slice_: Slice
) -> None:
    with (slice_.path / "rw/stats").open("r+b") as page:
        page.seek(layout.StatsHeader.slot_count.offset)
        page.write(struct.pack("<I", 3))
    first, *others = [started(machine, slice_, *OPEN) for _ in range(3)]
    late = Client(machine, slice_, OPEN, ("retainprimary", f"alloc:{100 * MIB}"))
    assert late.told == [OK, OUT_OF_MEMORY]
    assert slice_.stats.devices[0].used == 3 * CONTEXT
    first.communicate("x")
    assert late.go_on() == [OK, OK]
    assert late.end() == 0
    assert late.errors.count("\n") == 1
    assert slice_.stats.devices[0].denied_policy == 1
    for one in others:
        one.communicate("x")


BROKEN = {
    "another magic": ("control", 0, b"NOTAPAGE"),
    "another major version": ("control", 8, b"\x09\x00"),
    "no devices": ("control", 16, b"\x00\x00\x00\x00"),
    "a stride that leads out of the file": ("control", 20, b"\xf8\xff\xff\x7f"),
    "another magic in the stats": ("rw/stats", 0, b"NOTAPAGE"),
    "stats of another generation": ("rw/stats", layout.StatsHeader.generation.offset, b"\x63"),
    "a slot count out of range": ("rw/stats", layout.StatsHeader.slot_count.offset, b"\xff\xff"),
}


@pytest.mark.parametrize(("page", "offset", "data"), BROKEN.values(), ids=list(BROKEN))
def test_pages_that_cannot_be_used_refuse_memory_with_one_line(
    machine: Machine, slice_: Slice, page: str, offset: int, data: bytes
) -> None:
    with (slice_.path / page).open("r+b") as file:
        file.seek(offset)
        file.write(data)
    expect_refused(machine, slice_, page)


@pytest.mark.parametrize("page", ["control", "rw/stats"])
@pytest.mark.parametrize("size", [0, 100, 300, None])
def test_pages_that_are_cut_short_or_gone_refuse_memory_with_one_line(
    machine: Machine, slice_: Slice, page: str, size: int | None
) -> None:
    if size is None:
        (slice_.path / page).unlink()
    else:
        os.truncate(slice_.path / page, size)
    expect_refused(machine, slice_, page)


def expect_refused(machine: Machine, slice_: Slice, page: str) -> None:
    process = machine.start(slice_, "init", "retainprimary", "context", "total")
    output, errors = process.communicate(timeout=30)
    lines = [line.split() for line in output.splitlines()]
    assert [line[1] for line in lines] == [OK, OUT_OF_MEMORY, OUT_OF_MEMORY, OK]
    assert errors.count("\n") == 1
    assert page in errors


def test_a_control_page_of_an_older_version_is_read_without_what_it_lacks(
    machine: Machine, slice_: Slice
) -> None:
    """An older page has a shorter stride: a lease it does not know about is none."""
    control = slice_.path / "control"
    data = bytearray(control.read_bytes())
    header = layout.ControlHeader.from_buffer(data)
    header.device_stride = layout.ControlDevice.lease_deadline.offset
    del header
    control.write_bytes(data[: 128 + layout.ControlDevice.lease_deadline.offset])
    lines = machine.run(slice_, *OPEN, "total", f"alloc:{1600 * MIB}", f"alloc:{1500 * MIB}")
    assert lines[2:] == [("total", OK, str(LIMIT)), ("alloc", OUT_OF_MEMORY), ("alloc", OK)]
