"""The ledger stays exact through every kind of death."""

from __future__ import annotations

import subprocess

import pytest

import hatch_build
from limiter.pages import ControlDevice

from . import variant
from .conftest import Compile, MakeSlice, Run

CARD = ControlDevice(uuid=bytes(16))
LEDGER = (
    "ledger.c",
    "intents.c",
    "slots.c",
    "slice.c",
    "map.c",
    "control.c",
    "held.c",
    "guard.c",
    "complain.c",
)
STEPS = ("-DWEIR_LEDGER_STEP=ledger_step",)  # the program has a say at every step of an operation


def test_a_process_killed_at_any_step_leaves_nothing_charged_even_if_its_reaper_dies_too(
    compile_program: Compile, make_slice: MakeSlice, run: Run
) -> None:
    program = compile_program("ledger_crash", sources=LEDGER, flags=STEPS)
    slice_ = make_slice(CARD, CARD)
    result = run(program, environment={"WEIR_SLICE_DIR": str(slice_.path)})
    assert int(result.stdout) > 500  # every step of four operations, times every step of the reaper, twice


def test_what_a_handler_jumps_out_of_at_any_step_is_ended_by_the_next_operation(
    compile_program: Compile, make_slice: MakeSlice, run: Run
) -> None:
    program = compile_program("ledger_jumps", sources=LEDGER, flags=STEPS)
    slice_ = make_slice(CARD)
    result = run(program, environment={"WEIR_SLICE_DIR": str(slice_.path)})
    assert int(result.stdout) > 1000
    assert slice_.stats.devices[0].intent_waits == 0


def test_no_depth_of_handlers_and_jumps_ends_an_operation_that_goes_on(
    compile_program: Compile, make_slice: MakeSlice, run: Run
) -> None:
    program = compile_program("ledger_handlers", sources=LEDGER, flags=STEPS)
    slice_ = make_slice(CARD)
    result = run(program, "4000", environment={"WEIR_SLICE_DIR": str(slice_.path)})
    assert int(result.stdout) > 4000
    assert slice_.stats.devices[0].intent_waits == 0


@pytest.mark.parametrize("own", ["below", "above"])
def test_a_handler_on_an_alternate_stack_ends_no_operation_that_goes_on(
    compile_program: Compile, make_slice: MakeSlice, run: Run, own: str
) -> None:
    program = compile_program("ledger_stacks", sources=LEDGER, flags=STEPS)
    slice_ = make_slice(CARD)
    result = run(program, own, environment={"WEIR_SLICE_DIR": str(slice_.path)})
    assert int(result.stdout) > 100
    assert slice_.stats.devices[0].intent_waits == 0


def test_a_storm_of_kills_leaves_the_sum_equal_to_what_the_living_hold(
    compile_program: Compile, make_slice: MakeSlice, run: Run
) -> None:
    program = compile_program("ledger_storm", sources=LEDGER)
    slice_ = make_slice(CARD)
    result = run(program, "300", environment={"WEIR_SLICE_DIR": str(slice_.path)})
    assert int(result.stdout) > 50  # some were killed before they had a slot
    assert slice_.stats.devices[0].peak_bytes <= 256 << 20


def test_threads_of_a_storm_have_no_data_race(
    compile_program: Compile, make_slice: MakeSlice, run: Run
) -> None:
    command = [*hatch_build.compiler(), "-print-file-name=libtsan.so"]
    if subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "libtsan.so":
        pytest.skip("this compiler has no libtsan.so")
    flags = ("-fsanitize=thread",)
    program = compile_program("ledger_storm", output="ledger_storm-thread", sources=LEDGER, flags=flags)
    slice_ = make_slice(CARD)
    run(program, "30", environment={**variant.OPTIONS, "WEIR_SLICE_DIR": str(slice_.path)})
