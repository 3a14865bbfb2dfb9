"""A slice with little room and a program that takes memory of every kind in it (programs/object_kinds.c)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from limiter.pages import ControlDevice

from .conftest import CONTEXT, MIB, Machine, MakeSlice, Slice
from .outside import NVML, in_use

LIMIT = CONTEXT + 256 * MIB
PROGRAM = "object_kinds"


def small_slice(machine: Machine, make_slice: MakeSlice) -> Slice:
    """256 MiB of the first card beyond a context."""
    machine.compile_program(PROGRAM, flags=NVML)
    return make_slice(ControlDevice(uuid=machine.uuids()[0], memory_limit=LIMIT, context_bytes=CONTEXT))


@contextlib.contextmanager
def resting(machine: Machine, slice_: Slice, *commands: str) -> Iterator[list[str]]:
    """A process that has carried out the commands and still lives, with their results."""
    process = machine.start(slice_, "do", *commands, "wait", name=PROGRAM)
    assert process.stdout
    results = []
    for line in process.stdout:
        if line == "waiting\n":
            break
        results.append(line.split()[1])
    try:
        yield results
    finally:
        errors = process.communicate("x", timeout=30)[1]
        assert process.returncode == 0, errors


def assert_charged(machine: Machine, slice_: Slice, commands: Sequence[str], size: int) -> None:
    """All commands succeed, and then so many bytes beyond a context are charged, and shown by NVML."""
    idle = in_use(machine)
    with resting(machine, slice_, *commands) as results:
        assert set(results) == {"0"}
        assert slice_.stats.devices[0].used - CONTEXT == size
        assert in_use(machine) - idle - CONTEXT == size
        assert slice_.stats.devices[0].hook_errors == 0


def assert_refused_past_the_limit(machine: Machine, slice_: Slice, kind: str) -> None:
    """Out of memory past the limit, nothing else of it remembered, and there again after a free."""
    commands = (f"buffer:{200 * MIB}", f"{kind}:{100 * MIB}", "free:0", f"{kind}:{100 * MIB}")
    with resting(machine, slice_, *commands) as results:
        assert results == ["0", "2", "0", "0"]
        card = slice_.stats.devices[0]
        assert (card.denied_limit, card.denied_device, card.hook_errors) == (1, 0, 0)
        assert card.peak_bytes <= LIMIT
