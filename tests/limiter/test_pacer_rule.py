"""What the control page asks of launches at a moment: limit, lease, loan, slot, gate, and their deadlines."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from limiter.layout import DEADLINE_REACH, FULL_CORES, ControlDevice

from .pacer import MS, NOW


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"core_limit": 3000}, 3000),
        pytest.param({"core_limit": 0}, FULL_CORES, id="0 is no cap"),
        pytest.param({"core_limit": 20_000}, FULL_CORES, id="more than the card is the card"),
        ({"core_limit": 3000, "lease_core_limit": 1000, "lease_deadline": NOW + 1}, 1000),
        ({"core_limit": 3000, "lease_core_limit": 1000, "lease_deadline": NOW}, 3000),
        ({"core_limit": 3000, "lease_core_limit": 5000, "lease_deadline": NOW + 1}, 3000),
        ({"core_limit": 3000, "lease_core_limit": 0, "lease_deadline": NOW + 1}, 3000),
        ({"core_limit": 3000, "loan_core_limit": 8000, "loan_deadline": NOW + 1}, 8000),
        ({"core_limit": 3000, "loan_core_limit": 8000, "loan_deadline": NOW}, 3000),
        (
            {
                "core_limit": 3000,
                "loan_core_limit": 8000,
                "loan_deadline": NOW + 1,
                "lease_core_limit": 500,
                "lease_deadline": NOW + 1,
            },
            500,
        ),
    ],
)
def test_limit_is_the_leases_while_that_lives_and_is_smaller(
    pacer: Any, fields: dict[str, int], limit: int
) -> None:
    assert pacer.pacer_rule(ctypes.byref(ControlDevice(**fields)), NOW).limit == limit


@pytest.mark.parametrize(("deadline", "beside"), [(NOW + 1, True), (NOW, False), (0, False)])
def test_others_run_beside_it_while_their_deadline_lives(pacer: Any, deadline: int, beside: bool) -> None:
    assert pacer.pacer_rule(ctypes.byref(ControlDevice(beside_deadline=deadline)), NOW).beside is beside


@pytest.mark.parametrize(
    ("fields", "frame"),
    [
        ({"slot_deadline": NOW + 1, "slot_frame": 20 * MS, "slot_length": 5 * MS}, 20 * MS),
        pytest.param({"slot_deadline": NOW, "slot_frame": 20 * MS, "slot_length": 5 * MS}, 0, id="passed"),
        pytest.param({"slot_deadline": NOW + 1, "slot_frame": 0, "slot_length": 5 * MS}, 0, id="no frame"),
        pytest.param({"slot_deadline": NOW + 1, "slot_frame": 20 * MS}, 0, id="no length"),
        pytest.param(
            {"slot_deadline": NOW + 1, "slot_frame": 20 * MS, "slot_length": 20 * MS}, 0, id="whole frame"
        ),
    ],
)
def test_slot_counts_while_its_deadline_lives_and_it_is_one(
    pacer: Any, fields: dict[str, int], frame: int
) -> None:
    assert pacer.pacer_rule(ctypes.byref(ControlDevice(core_limit=3000, **fields)), NOW).frame == frame


@pytest.mark.parametrize(
    ("gate", "deadline", "until"),
    [
        (1, NOW + 1, NOW + 1),
        (1, NOW, 0),
        (0, NOW + 1, 0),
        (1, NOW + DEADLINE_REACH, NOW + DEADLINE_REACH),
        pytest.param(1, NOW + DEADLINE_REACH + 1, 0, id="further off than anybody sets one: noise"),
        pytest.param(1, 2**64 - 1, 0, id="noise"),
    ],
)
def test_gate_is_closed_until_its_deadline(pacer: Any, gate: int, deadline: int, until: int) -> None:
    control = ControlDevice(gate=gate, gate_deadline=deadline)
    assert pacer.pacer_rule(ctypes.byref(control), NOW).gate_until == until
