"""A program in a slice keeps everything that is its own: signals, files, limits, threads, the way it ends."""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path

import pytest

from benchmarks.launch_cost import UUID, compile_into
from limiter.pages import ControlDevice

from .conftest import MIB, Machine, MakeSlice, Slice


@pytest.mark.parametrize("limited", [False, True], ids=["without a slice", "in a slice"])
def test_nothing_of_the_process_changes_but_a_guard_for_the_pages(
    machine: Machine, slice_: Slice, limited: bool
) -> None:
    process = machine.start(slice_ if limited else None, *(["limited"] if limited else []), name="host_state")
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "first registered, last run\n", "")


@pytest.fixture(scope="module")
def null_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver that does nothing at once."""
    directory = tmp_path_factory.mktemp("null")
    compile_into(directory)
    return directory


@pytest.mark.parametrize(("way", "times", "microseconds"), [("return", 50, 10000), ("jump", 1500, 500)])
def test_a_signal_handler_that_allocates_waits_for_nobody_and_may_jump_out_of_a_call(
    machine: Machine, make_slice: MakeSlice, null_driver: Path, way: str, times: int, microseconds: int
) -> None:
    """A jump may leave a buffer charged that the driver does not have; none that it gave is missing."""
    slice_ = make_slice(ControlDevice(uuid=UUID, memory_limit=2048 * MIB))
    machine.environment["LD_LIBRARY_PATH"] = str(null_driver)
    process = machine.start(slice_, way, str(times), str(microseconds), name="handlers")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    device, (left, charged, given) = slice_.stats.devices[0], map(int, output.split())
    assert way == "return" or left > 100
    assert given <= charged <= left
    assert device.used == 0  # the process is gone; its slot says the same as the sum
    assert device.intent_waits == 0  # none of the process's intents was lost
    assert way == "jump" or device.peak_bytes <= 4 * MIB


@pytest.mark.parametrize("pages", ["usable", "missing"])
def test_a_thread_that_was_cancelled_ends_in_no_call_and_leaves_none_to_wait(
    machine: Machine, make_slice: MakeSlice, null_driver: Path, pages: str
) -> None:
    """Not while pages are opened, a slot is taken, a launch waits for its turn, or a line is complained."""
    gate = time.monotonic_ns() + 2 * 10**9
    slice_ = make_slice(
        ControlDevice(uuid=UUID, memory_limit=2048 * MIB, core_limit=5000, gate=1, gate_deadline=gate)
    )
    if pages == "missing":
        (slice_.path / "rw/stats").unlink()
    machine.environment["LD_LIBRARY_PATH"] = str(null_driver)
    process = machine.start(slice_, "allocate", "launch", "look", name="cancelled")
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "3\n"), errors
    assert ("stats" in errors) == (pages == "missing")
    if pages == "usable":
        device = slice_.stats.devices[0]
        assert device.used == 0
        assert device.throttled_time > 0


def test_a_complaint_raises_no_signal_where_stderr_is_at_its_size_limit(
    machine: Machine, slice_: Slice, tmp_path: Path
) -> None:
    """A write beyond RLIMIT_FSIZE would end the program with SIGXFSZ."""
    (slice_.path / "rw/stats").unlink()
    program = machine.compile_program("memory_client")
    with (tmp_path / "log").open("wb") as log:
        log.write(b"full")
        log.flush()
        result = subprocess.run(
            [program, "init", "retainprimary"],
            env=machine.inside(slice_),
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)),
            timeout=30,
            check=False,
        )
    assert (result.returncode, result.stdout.split()[-1]) == (0, b"2")


def test_a_program_with_no_descriptor_left_is_refused_and_served_again_later(
    machine: Machine, slice_: Slice
) -> None:
    """Taking a slot needs one for a moment."""
    process = machine.start(slice_, name="descriptors")
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output.split()) == (0, ["2", "0"]), errors
    assert "slot" in errors
