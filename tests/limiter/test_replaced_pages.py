"""Pages that are cut short, deleted, made anew or upgraded under a program: it goes on, and is held."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from limiter import layout
from limiter.pages import ControlDevice
from limiter.slices import mend
from limiter.writer import create_control, create_stats

from .client import OK, OPEN, OUT_OF_MEMORY, Client, await_held, look_again
from .conftest import CONTEXT, MIB, Machine, Slice


def remake_stats(slice_: Slice) -> None:
    create_stats(slice_.path / "rw/stats", slice_.control.generation, len(slice_.control.devices))


@pytest.mark.parametrize(("page", "size"), [("rw/stats", 0), ("rw/stats", 100_000), ("control", 0)])
def test_a_page_that_is_cut_short_ends_nobody_and_refuses_memory(
    machine: Machine, slice_: Slice, page: str, size: int
) -> None:
    step = (f"alloc:{100 * MIB}", "free:0", "info", "sync")
    client = Client(machine, slice_, (*OPEN, f"alloc:{100 * MIB}"), step, step)
    os.truncate(slice_.path / page, size)
    first, second = client.go_on(), client.go_on()
    assert first[1:] == [OK] * 3
    assert second[0] == OUT_OF_MEMORY
    assert client.end() == 0


def test_who_finds_his_page_cut_short_is_refused_at_that_very_call(machine: Machine, slice_: Slice) -> None:
    """Else each truncation would be good for as much again as the limit."""
    take = f"alloc:{1000 * MIB}"
    client = Client(machine, slice_, (*OPEN, take), (take, "free:0"))
    os.truncate(slice_.path / "rw/stats", 0)
    assert client.go_on() == [OUT_OF_MEMORY, OK]
    assert client.end() == 0


def test_who_comes_to_a_page_that_was_cut_short_is_refused_and_not_ended(
    machine: Machine, slice_: Slice
) -> None:
    """The slot is claimed under a lock, with signals blocked: a bus error would end the process there."""
    client = Client(machine, slice_, ("init", "nvml:0"), ("retainprimary",))
    os.truncate(slice_.path / "rw/stats", 0)
    assert client.go_on() == [OUT_OF_MEMORY]
    assert client.end() == 0


@pytest.mark.parametrize("page", ["rw/stats", "control"])
def test_a_page_that_is_made_anew_after_it_was_cut_has_what_everybody_holds(
    machine: Machine, slice_: Slice, page: str
) -> None:
    steps = ((*OPEN, f"alloc:{300 * MIB}"), ("info",), ("info", f"alloc:{1100 * MIB}"), ("free:1",))
    client = Client(machine, slice_, *steps)
    os.truncate(slice_.path / page, 0)
    look_again()
    client.go_on()
    if page == "control":
        create_control(slice_.path / page, slice_.control)
    else:
        assert mend(slice_.path)
    look_again()
    assert client.go_on() == [OK, OK]
    await_held(slice_, CONTEXT + 1400 * MIB)
    assert client.go_on() == [OK]
    await_held(slice_, CONTEXT + 300 * MIB)
    assert client.end() == 0
    assert client.errors == (
        f"weir: {slice_.path}/{page}: cut short; GPU memory is refused until it is made anew\n"
    )


@pytest.mark.parametrize("in_between", ["deleted", "only replaced"])
def test_a_page_that_is_made_anew_has_what_everybody_holds(
    machine: Machine, slice_: Slice, in_between: str
) -> None:
    steps = (("info",), ("info", f"alloc:{1000 * MIB}"), ("free:0",))
    holder = Client(machine, slice_, (*OPEN, f"alloc:{400 * MIB}"), *steps)
    other = Client(machine, slice_, OPEN, ("info",))
    if in_between == "deleted":
        (slice_.path / "rw/stats").unlink()
        look_again()
        assert holder.go_on() == [OK]
    else:
        holder.go_on()
    remake_stats(slice_)
    look_again()
    assert other.go_on() == [OK]  # who does nothing has not been told
    assert holder.go_on() == [OK, OUT_OF_MEMORY]
    await_held(slice_, 2 * CONTEXT + 400 * MIB)
    assert {one.pid for one in slice_.stats.processes} == {holder.process.pid, other.process.pid}
    assert holder.go_on() == [OK]
    await_held(slice_, 2 * CONTEXT)
    assert (holder.end(), other.end()) == (0, 0)


def test_pages_of_other_cards_change_nothing(machine: Machine, slice_: Slice) -> None:
    client = Client(machine, slice_, OPEN, ("info", f"alloc:{100 * MIB}"))
    create_control(
        slice_.path / "control",
        replace(slice_.control, devices=(ControlDevice(uuid=bytes(16), memory_limit=1),)),
    )
    look_again()
    assert client.go_on() == [OK, OK]
    assert client.end() == 0


def test_a_directory_that_is_removed_leaves_a_running_program_its_limit(
    machine: Machine, slice_: Slice
) -> None:
    client = Client(machine, slice_, OPEN, ("info", f"alloc:{1600 * MIB}", f"alloc:{100 * MIB}"))
    shutil.rmtree(slice_.path)
    look_again()
    assert client.go_on() == [OK, OUT_OF_MEMORY, OK]
    assert client.end() == 0


def test_an_agent_that_died_in_the_middle_of_a_write_holds_up_nobody_and_can_come_back(
    machine: Machine, slice_: Slice
) -> None:
    steps = ((f"alloc:{700 * MIB}",), (f"alloc:{700 * MIB}", f"alloc:{700 * MIB}"))
    client = Client(machine, slice_, OPEN, *steps)
    second = time.monotonic_ns() + 1_000_000_000
    slice_.update(unaccounted=1000 * MIB, unaccounted_deadline=second, gate=1, gate_deadline=second)
    with (slice_.path / "control").open("r+b") as file:
        file.seek(layout.ControlHeader.sequence.offset)
        file.write((slice_.control.sequence | 1).to_bytes(4, "little"))
    assert client.go_on() == [OUT_OF_MEMORY]
    time.sleep(max(0, second - time.monotonic_ns()) / 1e9)  # what guarded its figures has passed
    slice_.update(unaccounted=0, memory_limit=CONTEXT + 750 * MIB)
    assert client.go_on() == [OK, OUT_OF_MEMORY]
    assert client.end() == 0


def small_stats(slice_: Slice, slots: int) -> None:
    """A stats page with room for so many processes."""
    path = slice_.path / "rw/stats"
    header = layout.StatsHeader.from_buffer_copy(path.read_bytes())
    header.slot_count = slots
    size = header.header_size + header.device_count * header.device_stride + slots * header.slot_stride
    path.write_bytes(bytes(header).ljust(size, b"\0"))


def test_a_full_page_refuses_the_next_process_until_one_has_gone(machine: Machine, slice_: Slice) -> None:
    small_stats(slice_, 2)
    first, second = (Client(machine, slice_, OPEN) for _ in range(2))
    late = Client(machine, slice_, OPEN, OPEN)
    assert late.told == [OK, OUT_OF_MEMORY]
    first.process.kill()
    first.process.communicate()
    assert late.go_on() == [OK, OK]
    assert (second.end(), late.end()) == (0, 0)


def test_a_page_that_may_not_be_written_refuses_memory_in_one_line(
    machine: Machine, slice_: Slice, tmp_path: Path
) -> None:
    """As another user than the page's, for a superuser may write everything."""
    (slice_.path / "rw/stats").chmod(0o444)
    nobody: dict[str, int] = {}
    if os.geteuid() == 0:
        nobody = {"user": 65534, "group": 65534}
        for parent in (slice_.path, *slice_.path.parents):
            if not parent.stat().st_mode & 1:
                parent.chmod(0o755)
        program = machine.compile_program("memory_client")
        program.parent.chmod(0o755)
        program.parent.parent.chmod(0o755)
    command = [machine.compile_program("memory_client"), *OPEN]
    environment = {**machine.inside(slice_), "SIMGPU_STATE": f"{machine.environment['SIMGPU_STATE']}-nobody"}
    try:
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False, **nobody
        )
    finally:
        Path(environment["SIMGPU_STATE"]).unlink(missing_ok=True)
    assert result.stdout.split() == ["init", OK, "retainprimary", OUT_OF_MEMORY]
    assert result.stderr == (
        f"weir: {slice_.path}/rw/stats: cannot be opened for writing; GPU memory is refused to this process\n"
    )


@pytest.mark.parametrize("how", ["touch", "raise", "kill", "own-handler"])
def test_a_bus_error_that_is_not_ours_ends_as_it_would_have(
    machine: Machine, slice_: Slice, how: str, tmp_path: Path
) -> None:
    """By an access beyond the end of its own file, or sent; a handler of its own gets it."""
    process = machine.start(slice_, how, str(tmp_path / "own"), name="bus_error")
    output, errors = process.communicate(timeout=30)
    expected = ("handled\n", 0) if how == "own-handler" else ("", -signal.SIGBUS)
    assert (output, process.returncode) == expected, errors
