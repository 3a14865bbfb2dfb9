"""Arrays, first-version buffers, imports: charged as the card gives them, and refused past the limit."""

from __future__ import annotations

import pytest

from limiter.pages import ControlDevice

from .conftest import CONTEXT, MIB, Machine, MakeSlice, Slice
from .kinds import PROGRAM, assert_charged, assert_refused_past_the_limit, resting, small_slice
from .outside import NVML, Watch, in_use


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    return small_slice(machine, make_slice)


WHAT_IS_CHARGED = {
    "large arrays take whole pages": (("array:5000000", "array3d:3000000"), 10),
    "small arrays share pages": (("array:100000",) * 16, 2),
    "small arrays share none with buffers": (("buffer:1000", "array:1000", "buffer:1000"), 4),
    "a page goes with its last array": (("array:600000",) * 6 + ("free:0", "free:1", "free:2"), 2),
    "the last array takes all along": (("array:600000", "array:600000", "free:1", "free:0"), 0),
    "levels cost nothing by themselves": (("mipmap:4194304",), 6),
    "a mipmapped array is given back": (("mipmap:4194304", "free:0"), 0),
    "another API's memory": (("external:5000000", "external:100", "free:1"), 6),
    "the first version's buffers": (("first:100", "first:100", "first:3000000"), 6),
    "the first version's pitched buffers": (("firstpitch:3000000", "free:0", "firstpitch:100000"), 2),
}


@pytest.mark.parametrize(("commands", "expected"), WHAT_IS_CHARGED.values(), ids=list(WHAT_IS_CHARGED))
def test_what_is_charged_is_what_the_card_gives(
    machine: Machine, slice_: Slice, commands: tuple[str, ...], expected: int
) -> None:
    assert_charged(machine, slice_, commands, expected * MIB)


@pytest.mark.parametrize("kind", ["array", "array3d", "mipmap", "first", "firstpitch", "external"])
def test_past_the_limit_every_kind_is_out_of_memory_and_works_again_after_a_free(
    machine: Machine, slice_: Slice, kind: str
) -> None:
    assert_refused_past_the_limit(machine, slice_, kind)


def test_small_arrays_fill_a_slice_and_no_more(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=CONTEXT + 8 * MIB)
    idle = in_use(machine)
    with resting(machine, slice_, *("array:1000000",) * 10) as results:
        assert results == ["0"] * 7 + ["2"] * 3  # none begins without a page of room
        assert in_use(machine) - idle == CONTEXT + 8 * MIB == slice_.stats.devices[0].used


def test_what_was_made_in_a_context_goes_with_it(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=2 * CONTEXT + 64 * MIB)
    inside = ("array:1000", "array:5000000", "mipmap:4194304", "first:100")
    with resting(machine, slice_, "context", *inside, "destroycontext") as results:
        assert set(results) == {"0"}
        assert slice_.stats.devices[0].used == CONTEXT


def test_a_context_takes_its_pages_along_whatever_small_arrays_others_have(
    machine: Machine, slice_: Slice
) -> None:
    slice_.update(memory_limit=2 * CONTEXT + 64 * MIB)
    others = ("array:1000",) * 4  # in one page
    inside = ("context", "array:1000", "array:1000", "free:4")  # the one that took the page is gone
    idle = in_use(machine)
    with resting(machine, slice_, *others, *inside, "destroycontext") as results:
        assert set(results) == {"0"}
        assert slice_.stats.devices[0].used == CONTEXT + 2 * MIB == in_use(machine) - idle


@pytest.mark.parametrize("array", ["array:900000", "array3d:900000"])  # two fill a page
def test_a_small_array_gives_its_page_back_whatever_card_is_current(
    machine: Machine, make_slice: MakeSlice, array: str
) -> None:
    machine.compile_program(PROGRAM, flags=NVML)
    cards = (ControlDevice(uuid=uuid, context_bytes=CONTEXT) for uuid in machine.uuids())
    slice_ = make_slice(*cards)
    with resting(machine, slice_, array, array, array, "faraway:2") as results:
        assert set(results) == {"0"}
        assert [card.used for card in slice_.stats.devices] == [CONTEXT + 2 * MIB, CONTEXT]


@pytest.mark.parametrize("seed", [1, 2])
def test_after_every_step_of_a_random_sequence_the_ledger_is_what_nvml_shows(
    machine: Machine, slice_: Slice, seed: int
) -> None:
    slice_.update(memory_limit=CONTEXT + 24 * MIB)
    process = machine.start(slice_, "random", str(seed), "400", name=PROGRAM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert int(output) > 0  # some did not fit
    assert slice_.stats.devices[0].hook_errors == 0


def test_processes_that_take_all_kinds_but_small_arrays_at_once_never_pass_the_limit(
    machine: Machine, slice_: Slice
) -> None:
    slice_.update(memory_limit=4 * CONTEXT + 24 * MIB)
    watch = Watch(machine)
    crowd = [machine.start(slice_, "crowd", str(seed), "1000", name=PROGRAM) for seed in range(4)]
    for process in crowd:  # each has its context before anybody takes the rest
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
    for process in crowd:
        assert process.stdin
        process.stdin.write("x")
        process.stdin.flush()
    told = [process.communicate(timeout=60) for process in crowd]
    for process, (_, errors) in zip(crowd, told, strict=True):
        assert (process.returncode, errors) == (0, "")
    assert sum(int(output) for output, _ in told) > 0  # some did not fit
    _, most = watch.end()
    assert CONTEXT < most <= 4 * CONTEXT + 24 * MIB
    card = slice_.stats.devices[0]
    assert (card.used, card.hook_errors) == (0, 0)
