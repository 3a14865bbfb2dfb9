"""A limit that kernels need memory for is charged by what it is raised by."""

from __future__ import annotations

import pytest

from .conftest import CONTEXT, MIB, Machine, MakeSlice, Slice
from .kinds import assert_charged, resting, small_slice
from .outside import in_use

DEFAULTS = {"stack": 1024, "print": 7 << 20, "heap": 8 << 20}


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    return small_slice(machine, make_slice)


WHAT_IS_CHARGED = {
    "a stack for every thread of the card": (("stack:1536",), 132),
    "a heap": ((f"heap:{30 * MIB}",), 22),
    "a print buffer, in pages": ((f"print:{9 * MIB}",), 2),
    "raised twice": ((f"heap:{16 * MIB}", f"heap:{30 * MIB}"), 22),
    "lowered": ((f"heap:{30 * MIB}", f"heap:{10 * MIB}"), 2),
    "lowered to less than it was": ((f"heap:{30 * MIB}", "stack:1", "heap:1"), 0),
    "raised again to what it was": (("stack:1", "stack:1024", "heap:1", f"heap:{30 * MIB}"), 22),
    "several at once": (("stack:1536", f"heap:{30 * MIB}", f"print:{8 * MIB}"), 154),
}


@pytest.mark.parametrize(("commands", "expected"), WHAT_IS_CHARGED.values(), ids=list(WHAT_IS_CHARGED))
def test_what_is_charged_is_what_the_card_gives(
    machine: Machine, slice_: Slice, commands: tuple[str, ...], expected: int
) -> None:
    assert_charged(machine, slice_, commands, expected * MIB)


@pytest.mark.parametrize("what", DEFAULTS)
def test_past_the_limit_it_is_out_of_memory_and_as_it_was(machine: Machine, slice_: Slice, what: str) -> None:
    idle = in_use(machine)
    with resting(machine, slice_, f"{what}:{DEFAULTS[what] * 100}", f"{what}:{DEFAULTS[what]}") as results:
        assert results == ["2", "0"]
        assert slice_.stats.devices[0].denied_limit == 1
        assert in_use(machine) - idle == CONTEXT == slice_.stats.devices[0].used


def test_it_goes_with_its_context(machine: Machine, slice_: Slice) -> None:
    slice_.update(memory_limit=2 * CONTEXT + 256 * MIB)
    idle = in_use(machine)
    with resting(machine, slice_, "context", "stack:1536", f"heap:{30 * MIB}", "destroycontext") as results:
        assert set(results) == {"0"}
        assert in_use(machine) - idle == CONTEXT == slice_.stats.devices[0].used
