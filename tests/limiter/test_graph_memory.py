"""What a graph's allocation nodes take is charged at its launch, and given back when the card is trimmed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from limiter.pages import ControlDevice

from .conftest import CONTEXT, MIB, Machine, MakeSlice, Slice
from .outside import in_use

LIMIT = CONTEXT + 256 * MIB
PROGRAM = "graph_client"
HALF, MOST = 100 * MIB, 160 * MIB


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    """256 MiB of the first card beyond a context."""
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=LIMIT, context_bytes=CONTEXT))


@contextlib.contextmanager
def resting(machine: Machine, slice_: Slice, *commands: str) -> Iterator[list[str]]:
    """A process that has carried out the commands and still lives, with their results."""
    process = machine.start(slice_, *commands, "wait", name=PROGRAM)
    assert process.stdout
    lines = [line.split() for line in iter(process.stdout.readline, "waiting\n")]
    try:
        yield [line[-1] for line in lines]
    finally:
        errors = process.communicate("x", timeout=30)[1]
        assert process.returncode == 0, errors


WHAT_IS_CHARGED = {
    "a graph takes nothing before it is launched": (("add:1000000:3",), 0),
    "each node takes whole pages": (("add:3000000:3", "launch:0"), 12),
    "a node of any kind": (("any:3000000:3", "launch:0"), 12),
    "what was captured": (("capture:3000000:3", "launch:0"), 12),
    "what a graph frees stays in reserve": (("within:8388608:2", "launch:0", "sync"), 8),
    "a second launch takes no more": (("within:8388608", "launch:0", "launch:0", "sync"), 8),
    "nor does another graph in its place": (
        ("within:8388608", "within:8388608", "launch:0", "launch:1", "sync"),
        8,
    ),
    "what is freed stays in reserve": (("add:8388608", "launch:0", "free:0", "sync"), 8),
    "what is freed is trimmed": (("add:8388608", "launch:0", "free:0", "sync", "trim"), 0),
    "what is held is not": (("add:8388608", "launch:0", "sync", "trim"), 8),
    "a graph is gone and its memory is not": (("add:8388608", "launch:0", "destroy:0"), 8),
    "and then it is": (("add:8388608", "launch:0", "destroy:0", "free:0", "sync", "trim"), 0),
}


@pytest.mark.parametrize(("commands", "expected"), WHAT_IS_CHARGED.values(), ids=list(WHAT_IS_CHARGED))
def test_what_is_charged_is_what_the_graphs_of_a_card_have_in_reserve(
    machine: Machine, slice_: Slice, commands: Sequence[str], expected: int
) -> None:
    idle = in_use(machine)
    with resting(machine, slice_, *commands) as results:
        assert set(results) == {"0"}
        card = slice_.stats.devices[0]
        assert (card.used - CONTEXT, card.hook_errors) == (expected * MIB, 0)
        assert in_use(machine) - idle - CONTEXT == expected * MIB


PAST_THE_LIMIT = {
    "two that keep": (
        (f"add:{MOST}", f"add:{MOST}", "launch:0", "launch:1", "free:0", "launch:1"),
        "0 0 0 2 0 0",
    ),
    "one too large": ((f"add:{HALF}:3", "launch:0", f"alloc:{LIMIT - CONTEXT}"), "0 2 0"),
    "uploaded": ((f"add:{MOST}", f"alloc:{HALF}", "upload:0", "unalloc", "upload:0"), "0 0 2 0 0"),
    "uploaded at once": ((f"alloc:{HALF}", f"ready:{MOST}", "unalloc", f"ready:{MOST}"), "0 2 0 0"),
    "captured": ((f"capture:{MOST}", f"alloc:{HALF}", "launch:0", "unalloc", "launch:0"), "0 0 2 0 0"),
    "a buffer beside them": (
        (f"add:{MOST}", "launch:0", f"alloc:{HALF}", "free:0", f"alloc:{HALF}"),
        "0 0 2 0 0",
    ),
}


@pytest.mark.parametrize(("commands", "expected"), PAST_THE_LIMIT.values(), ids=list(PAST_THE_LIMIT))
def test_past_the_limit_a_graph_is_out_of_memory_and_works_again_after_a_free(
    machine: Machine, slice_: Slice, commands: Sequence[str], expected: str
) -> None:
    with resting(machine, slice_, *commands) as results:
        assert results == expected.split()
        card = slice_.stats.devices[0]
        assert (card.denied_limit, card.denied_device, card.hook_errors) == (1, 0, 0)
        assert card.peak_bytes <= LIMIT


WORKS = {
    "one of more than half a slice, again and again": (f"within:{MOST}", *("launch:0",) * 4),
    "in another stream": (f"within:{MOST}", "launch:0", "sync", "other:0", "launch:0"),
    "two in turns": (f"within:{MOST}", f"within:{MOST}", *("launch:0", "launch:1") * 3),
    "trimmed in between": (f"within:{MOST}", "launch:0", "sync", "trim", "launch:0"),
}


@pytest.mark.parametrize("commands", WORKS.values(), ids=list(WORKS))
def test_a_graph_that_fits_is_launched_whatever_was_launched_before(
    machine: Machine, slice_: Slice, commands: Sequence[str]
) -> None:
    with resting(machine, slice_, *commands) as results:
        assert set(results) == {"0"}
        assert slice_.stats.devices[0].peak_bytes <= LIMIT


def test_a_node_on_a_card_outside_the_slice_is_refused(machine: Machine, slice_: Slice) -> None:
    with resting(machine, slice_, "elsewhere:1000") as results:
        assert results == ["2"]
        assert slice_.stats.devices[0].denied_policy == 1
