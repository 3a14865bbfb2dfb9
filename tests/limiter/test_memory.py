"""Device memory is charged as the card gives it, and never passes the limit."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from limiter.pages import ControlDevice
from simgpu.machines import LIBRARIES

from .client import OK, OPEN, OUT_OF_MEMORY
from .conftest import CONTEXT, LIMIT, MIB, Machine, MakeSlice, Run, Slice
from .outside import Watch, in_use


@contextlib.contextmanager
def resting(machine: Machine, slice_: Slice, *commands: str) -> Iterator[list[tuple[str, ...]]]:
    """A process that has carried out the commands and still lives, with what it printed."""
    process = machine.start(slice_, *commands, "wait")
    assert process.stdout
    lines: list[tuple[str, ...]] = []
    for line in process.stdout:
        lines.append(tuple(line.split()))
        if lines[-1][0] == "waiting":
            break
    try:
        yield lines[:-1]
    finally:
        errors = process.communicate("x", timeout=30)[1]
        assert process.returncode == 0, errors


WHAT_IS_CHARGED = {
    "one byte takes a block": (("alloc:1",), 2),
    "small buffers share a block": (("alloc:512",) * 64, 2),
    "two of a mebibyte share a block": (("alloc:1048576",) * 64, 64),
    "a byte more takes a page each": (("alloc:1048577",) * 8, 16),
    "pages are whole": (("alloc:2097153",) * 4, 16),
    "freed": (("alloc:5000000", "alloc:100", "free:0", "free:1"), 0),
    "freed in part": (("alloc:100", "alloc:100", "free:0"), 2),
    "managed": (("managed:3000000",), 4),
    "rows are padded": (("pitch:1000:4096",), 4),
    "a pool grows by steps": (("async:1", "async:1000"), 32),
    "the card's pool by name": (("defaultpool:1", "latestpool:1000", "async:1"), 32),
    "a pool of the program's own": (("pool:1", "async:1"), 64),
    "a pool shrinks when the program waits": (("async:1", "freeasync:0", "sync"), 0),
    "a pool is trimmed": (("pool:1", "freeasync:0", "sync", "trimpool"), 0),
    "a pool is destroyed after its memory": (("pool:1", "freeasync:0", "sync", "destroypool"), 0),
    "a pool destroyed before its memory": (("pool:1", "destroypool"), 32),
    "and then its memory": (("pool:1", "destroypool", "freeasync:0", "sync"), 0),
    "physical memory": (("create:2097152", "create:4194304"), 6),
    "physical memory on the host": (("hostcreate:2097152",), 0),
    "released": (("create:2097152", "release:0"), 0),
    "released while mapped": (("create:2097152", "map:0", "release:0"), 2),
    "released and unmapped": (("create:2097152", "map:0", "release:0", "unmap:0"), 0),
    "retained": (("create:2097152", "map:0", "retain:0", "release:0", "unmap:0"), 2),
    "retained and released": (
        ("create:2097152", "map:0", "retain:0", "release:0", "unmap:0", "release:1"),
        0,
    ),
}


@pytest.mark.parametrize(("commands", "expected"), WHAT_IS_CHARGED.values(), ids=list(WHAT_IS_CHARGED))
def test_what_is_charged_is_what_the_card_gives(
    machine: Machine, slice_: Slice, commands: tuple[str, ...], expected: int
) -> None:
    idle = in_use(machine)
    with resting(machine, slice_, *OPEN, *commands) as lines:
        assert {line[1] for line in lines} == {OK}
        assert slice_.stats.devices[0].used - CONTEXT == expected * MIB
        assert in_use(machine) - idle - CONTEXT == expected * MIB


WHAT_IS_REFUSED = ("alloc", "managed", "pitch", "async", "pool", "defaultpool", "latestpool", "create")


@pytest.mark.parametrize("kind", WHAT_IS_REFUSED)
def test_past_the_limit_every_kind_is_out_of_memory_and_works_again_after_a_free(
    machine: Machine, slice_: Slice, kind: str
) -> None:
    rest = LIMIT - CONTEXT - 64 * MIB
    commands = (f"alloc:{rest}", f"{kind}:{100 * MIB}:1", "free:0", f"{kind}:{100 * MIB}:1")
    with resting(machine, slice_, *OPEN, *commands) as lines:
        assert [line[1] for line in lines[2:]] == [OK, OUT_OF_MEMORY, OK, OK]
        card = slice_.stats.devices[0]
        assert (card.denied_limit, card.denied_device, card.hook_errors) == (1, 0, 0)
        assert card.peak_bytes <= LIMIT


def test_a_full_slice_uses_memory_again_that_was_freed_in_stream_order(
    machine: Machine, slice_: Slice
) -> None:
    again = (f"async:{900 * MIB}", "freeasync:0", f"async:{1200 * MIB}", "freeasync:1", f"alloc:{1300 * MIB}")
    assert [line[1] for line in machine.run(slice_, *OPEN, *again)] == [OK] * 7


def test_memory_queries_show_the_slice(machine: Machine, slice_: Slice) -> None:
    lines = machine.run(slice_, *OPEN, f"alloc:{100 * MIB}", "info", "infofree", "total", "nvml")
    free = LIMIT - CONTEXT - 100 * MIB
    assert lines[3:] == [
        ("info", OK, str(free), str(LIMIT)),
        ("infofree", OK, str(free)),
        ("total", OK, str(LIMIT)),
        ("nvml", OK, str(LIMIT), str(free), str(LIMIT - free)),
    ]


def test_use_above_a_lowered_limit_shows_as_no_free_memory(machine: Machine, slice_: Slice) -> None:
    with resting(machine, slice_, *OPEN, f"alloc:{1000 * MIB}"):
        slice_.update(memory_limit=600 * MIB)
        lines = machine.run(slice_, "init", "device:1", "total", "device:0", "total", "nvml")
    assert lines[2:] == [("total", OK, str(600 * MIB)), ("nvml", OK, str(600 * MIB), "0", str(600 * MIB))]


def test_a_limit_larger_than_the_card_shows_as_the_card(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=1 << 42)
    inside = machine.run(slice_, "init", "total")
    assert inside == machine.run(None, "init", "total")


def test_a_lease_lowers_the_limit_until_its_deadline(machine: Machine, slice_: Slice) -> None:
    slice_.update(lease_memory_limit=700 * MIB, lease_deadline=time.monotonic_ns() + 60 * 10**9)
    assert machine.run(slice_, *OPEN, f"alloc:{300 * MIB}", "total")[2:] == [
        ("alloc", OUT_OF_MEMORY),
        ("total", OK, str(700 * MIB)),
    ]
    slice_.update(lease_deadline=1)
    assert machine.run(slice_, *OPEN, f"alloc:{300 * MIB}")[2:] == [("alloc", OK)]


def test_bytes_unaccounted_for_count_against_the_limit(machine: Machine, slice_: Slice) -> None:
    slice_.update(unaccounted=1400 * MIB, unaccounted_deadline=time.monotonic_ns() + 60 * 10**9)
    lines = machine.run(slice_, *OPEN, "info", f"alloc:{200 * MIB}", f"alloc:{100 * MIB}")
    assert lines[2:] == [
        ("info", OK, str(LIMIT - CONTEXT - 1400 * MIB), str(LIMIT)),
        ("alloc", OUT_OF_MEMORY),
        ("alloc", OK),
    ]


def test_a_context_that_does_not_fit_is_out_of_memory(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=CONTEXT + 10 * MIB)
    with resting(
        machine, slice_, "init", "context", "retainprimary", "destroycontext", "retainprimary"
    ) as lines:
        assert [line[1] for line in lines] == [OK, OK, OUT_OF_MEMORY, OK, OK]
        assert slice_.stats.devices[0].used == CONTEXT


@pytest.mark.parametrize("end", ["releaseprimary", "resetprimary"])
def test_what_was_allocated_in_a_context_goes_with_it(machine: Machine, slice_: Slice, end: str) -> None:
    with resting(machine, slice_, *OPEN, "alloc:100", "alloc:5000000", end):
        assert slice_.stats.devices[0].used == 0


def test_a_card_outside_the_slice_gives_nothing(machine: Machine, slice_: Slice) -> None:
    lines = machine.run(slice_, "init", "device:1", "context", "retainprimary")
    assert [line[1] for line in lines] == [OK, OUT_OF_MEMORY, OUT_OF_MEMORY]


def test_the_pool_of_a_card_outside_the_slice_gives_nothing(machine: Machine, slice_: Slice) -> None:
    lines = machine.run(slice_, *OPEN, "device:1", "defaultpool:1")
    assert lines[-1] == ("defaultpool", OUT_OF_MEMORY)


def test_pools_past_counting_are_refused_and_not_left_uncharged(machine: Machine, slice_: Slice) -> None:
    commands = ("morepools:900", f"pool:{LIMIT}", "pool:1", "morepools:9000", "defaultpool:1")
    with resting(machine, slice_, *OPEN, *commands) as lines:
        assert [line[1] for line in lines[2:]] == [OK, OUT_OF_MEMORY, OK, OUT_OF_MEMORY, OK]
        assert slice_.stats.devices[0].used == CONTEXT + 64 * MIB


def test_limits_follow_the_card_and_not_its_ordinal(machine: Machine, make_slice: MakeSlice) -> None:
    first, second = machine.uuids()
    slice_ = make_slice(
        ControlDevice(uuid=second, memory_limit=1 << 30, context_bytes=CONTEXT),
        ControlDevice(uuid=first, memory_limit=2 << 30, context_bytes=CONTEXT),
    )
    lines = machine.run(slice_, "init", "total", "device:1", "total")
    assert lines[1:] == [("total", OK, str(2 << 30)), ("total", OK, str(1 << 30))]


def test_the_card_of_the_stream_is_charged_and_not_the_current_one(
    machine: Machine, make_slice: MakeSlice
) -> None:
    cards = (
        ControlDevice(uuid=uuid, memory_limit=1 << 30, context_bytes=CONTEXT) for uuid in machine.uuids()
    )
    slice_ = make_slice(*cards)
    with resting(machine, slice_, *OPEN, "elsewhere:1000") as lines:
        assert lines[-1] == ("elsewhere", OK)
        assert [card.used for card in slice_.stats.devices] == [CONTEXT, CONTEXT + 32 * MIB]


def test_eight_processes_at_once_never_pass_the_limit(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=8 * CONTEXT + 1000 * MIB)
    watch = Watch(machine)
    everything = (f"async:{40 * MIB}", f"create:{40 * MIB}", "fill:3000000", "free:2", "fill:700000")
    crowd = [machine.start(slice_, *OPEN, *everything, "wait") for _ in range(8)]
    for process in crowd:
        assert process.stdout
        assert any(line.startswith("waiting") for line in process.stdout)
    looks, most = watch.end()
    for process in crowd:
        process.communicate("x", timeout=30)
        assert process.returncode == 0
    assert looks > 10
    assert 8 * CONTEXT < most <= 8 * CONTEXT + 1000 * MIB
    assert slice_.stats.devices[0].denied_limit >= 8


def test_processes_killed_in_the_middle_leave_nothing_behind(machine: Machine, slice_: Slice) -> None:
    idle = in_use(machine)
    chance = random.Random(7)
    for _ in range(25):
        crowd = [machine.start(slice_, *OPEN, "fill:3000000", "fill:1000", "wait") for _ in range(2)]
        for process in crowd:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.03)
            process.kill()
        for process in crowd:
            process.communicate(timeout=30)
    with resting(machine, slice_, *OPEN, f"alloc:{LIMIT - CONTEXT}") as lines:
        assert lines[-1] == ("alloc", OK)
        assert slice_.stats.devices[0].used == LIMIT
        assert in_use(machine) - idle == LIMIT
    assert slice_.stats.reaped > 0


def test_threads_that_free_everything_leave_the_books_as_they_were(machine: Machine, slice_: Slice) -> None:
    program = machine.compile_program("memory_threads", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    idle = in_use(machine)
    slice_.update(memory_limit=800 * MIB)
    process = subprocess.Popen(
        [program, "12", "400"],
        env=machine.inside(slice_),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "waiting\n", process.stderr
    card = slice_.stats.devices[0]
    assert card.used == CONTEXT
    assert in_use(machine) - idle == CONTEXT
    assert card.denied_limit > 0
    assert card.peak_bytes <= 800 * MIB
    assert (card.hook_errors, card.allocations - card.frees) == (0, 0)
    assert process.communicate("x", timeout=30)[1] == ""


def test_a_pool_is_not_asked_about_while_it_is_destroyed(machine: Machine, slice_: Slice, run: Run) -> None:
    slice_.update(memory_limit=3 * CONTEXT + 200 * MIB)
    program = machine.compile_program("pool_ends", flags=(f"-L{LIBRARIES}", "-l:libcuda.so.1"))
    assert run(program, environment=machine.inside(slice_)).stdout == "16000\n"
    card = slice_.stats.devices[0]
    assert card.denied_limit > 0
    assert (card.used, card.hook_errors) == (0, 0)
