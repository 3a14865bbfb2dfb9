"""Streams capture in a slice as they do without the limiter: same results, same nodes, same launches."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

import hatch_build
from limiter import headers
from limiter.pages import ControlDevice

from .client import OUT_OF_MEMORY
from .conftest import CONTEXT, MIB, ROOT, SOURCES, Machine, MakeSlice, Slice
from .outside import in_use

PROGRAM = "capture_client"
WARM_UP = 60  # launches of the program in its two streams, before it captures
MODES = {"global": 0, "of the thread": 1, "relaxed": 2}
SITUATIONS = (
    *("alloc", "kept", "pool", "thread_stream", "fork_join", "slow", "many", "graph_in_graph"),
    *("blocking", "here_own"),
)
BESIDE = ("plain", "launch", "async", "stream", "event", "context", "array", "ask", "legacy", "graph")
HERE_AND_THERE = {what: (f"here_{what}", f"there_{what}") for what in BESIDE}  # by which thread
ALL = {name: (name,) for name in SITUATIONS} | HERE_AND_THERE


@pytest.fixture
def slice_(machine: Machine, make_slice: MakeSlice) -> Slice:
    """256 MiB of the first card beyond a context, and half of its time."""
    return make_slice(
        ControlDevice(
            uuid=machine.uuids()[0], memory_limit=CONTEXT + 256 * MIB, context_bytes=CONTEXT, core_limit=5000
        )
    )


def told(machine: Machine, environment: dict[str, str], *commands: str) -> list[str]:
    """What the program prints of each."""
    result = subprocess.run(
        [machine.compile_program(PROGRAM), *commands],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("situations", ALL.values(), ids=list(ALL))
def test_a_capture_goes_as_without_the_limiter(
    machine: Machine, slice_: Slice, situations: Sequence[str]
) -> None:
    commands = [f"{situation}:{mode}" for situation in situations for mode in MODES.values()]
    limited = told(machine, machine.inside(slice_), *commands)
    assert limited == told(machine, machine.environment, *commands)
    assert all(line.count("[") for line in limited)
    assert slice_.stats.devices[0].hook_errors == 0


def test_a_refusal_by_the_limiter_disturbs_no_capture(machine: Machine, slice_: Slice) -> None:
    commands = [f"{where}_physical:{mode}" for where in ("here", "there") for mode in MODES.values()]
    for line, bare in zip(
        told(machine, machine.inside(slice_), *commands),
        told(machine, machine.environment, *commands),
        strict=True,
    ):
        assert line.replace(f" {OUT_OF_MEMORY} ", " 0 0 ") == bare  # made and released there
    assert slice_.stats.devices[0].denied_limit == len(commands)


def test_calls_disturb_captures_in_a_slice_as_without_it(machine: Machine, make_slice: MakeSlice) -> None:
    wide = ControlDevice(
        uuid=machine.uuids()[0], memory_limit=8 << 30, context_bytes=CONTEXT, core_limit=5000
    )
    bare, limited = (
        subprocess.run(
            [sys.executable, ROOT / "benchmarks/capture_calls.py"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.splitlines()
        for environment in (machine.environment, machine.inside(make_slice(wide)))
    )
    assert limited == bare
    assert len(bare) > 100


def test_what_was_captured_is_charged_when_it_is_launched(machine: Machine, slice_: Slice) -> None:
    idle = in_use(machine)
    process = machine.start(slice_, "alloc:0", "alloc:0", "wait", name=PROGRAM)
    assert process.stdout
    list(iter(process.stdout.readline, "wait\n"))
    assert slice_.stats.devices[0].used - CONTEXT == in_use(machine) - idle - CONTEXT == 4 * MIB
    assert process.communicate("x", timeout=30)[1] == ""


def test_what_is_captured_counts_as_no_work(machine: Machine, slice_: Slice) -> None:
    told(machine, machine.inside(slice_), "many:0")
    assert slice_.stats.devices[0].launches == WARM_UP


OWN_TABLES = {  # what a driver answers from its own tables, and an H200 while a stream captures
    *("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"),
    *("cuDeviceGetAttribute", "cuDeviceGetCount", "cuDeviceGetUuid", "cuDeviceGetUuid_v2"),
    *(
        "cuGraphChildGraphNodeGetGraph",
        "cuGraphGetNodes",
        "cuGraphMemAllocNodeGetParams",
        "cuGraphNodeGetType",
    ),
    *("cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"),
}


def test_every_other_question_of_the_limiter_is_asked_so_that_captures_do_not_mind() -> None:
    compiler = [*hatch_build.compiler(), *hatch_build.include_flags(), f"-I{SOURCES}"]
    own = set(headers.lists(compiler, "hooks.h")["WEIR_CALLED_CUDA"])
    asked: dict[str, set[str]] = {symbol: set() for symbol in own}
    for source in sorted(SOURCES.glob("*.c")):
        for way, symbol in re.findall(r"WEIR_(ASK|CALL|REAL)\(\s*(cu\w+)", source.read_text()):
            asked.get(symbol, set()).add(way)
    assert {symbol for symbol, ways in asked.items() if ways != {"ASK"}} == OWN_TABLES
