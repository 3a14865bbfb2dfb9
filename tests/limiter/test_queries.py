"""Memory queries that the control page answers, on the simulated driver.

The page's figures differ from the card's here, so an answer shows whom it is from.
"""

from __future__ import annotations

import time

import pytest

from .client import OK, OPEN, Client
from .conftest import CONTEXT, LIMIT, MIB, Machine, Slice

TOTAL = 1600 * MIB  # smaller than the limit: it shows in the answers
ROOM = 1000 * MIB


@pytest.fixture
def told(slice_: Slice) -> Slice:
    """A slice whose page says how much there is of the card."""
    minute = time.monotonic_ns() + 60 * 10**9
    slice_.update(card_total=TOTAL, card_room=ROOM, card_deadline=minute)
    return slice_


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("info", (str(ROOM - CONTEXT), str(TOTAL))),
        ("infofree", (str(ROOM - CONTEXT),)),
        ("infonothing", ()),
        ("nvml", (str(TOTAL), str(ROOM - CONTEXT), str(CONTEXT))),
    ],
)
def test_a_fresh_page_answers(machine: Machine, told: Slice, question: str, answer: tuple[str, ...]) -> None:
    assert machine.run(told, *OPEN, question)[-1] == (question, OK, *answer)


def test_what_the_slice_takes_and_gives_back_shows_at_once(machine: Machine, told: Slice) -> None:
    lines = machine.run(told, *OPEN, f"alloc:{300 * MIB}", "infofree", "free:0", "infofree")
    assert [line[2] for line in lines if line[0] == "infofree"] == [
        str(ROOM - CONTEXT - 300 * MIB),
        str(ROOM - CONTEXT),
    ]


def test_a_full_card_leaves_nothing_and_never_less(machine: Machine, told: Slice) -> None:
    told.update(card_room=CONTEXT - MIB)
    assert machine.run(told, *OPEN, "infofree")[-1] == ("infofree", OK, "0")


@pytest.mark.parametrize("before", [("init",), (*OPEN, "resetprimary", "destroycontext")])
def test_without_a_context_the_error_is_the_driver_s(
    machine: Machine, told: Slice, before: tuple[str, ...]
) -> None:
    inside, bare = machine.run(told, *before, "info"), machine.run(None, *before, "info")
    assert inside == bare
    assert inside[-1][1] != OK


def test_an_old_page_leaves_the_answer_to_the_driver(machine: Machine, told: Slice) -> None:
    told.update(card_deadline=1)
    assert machine.run(told, *OPEN, "info")[-1] == ("info", OK, str(LIMIT - CONTEXT), str(LIMIT))


def test_a_card_outside_the_slice_answers_for_itself(machine: Machine, told: Slice) -> None:
    steps = ("init", "device:1", "total", "device:0", "retainprimary", "infofree")
    inside, bare = machine.run(told, *steps), machine.run(None, *steps)
    assert inside[1] == bare[1]
    assert inside[-1] != bare[-1]


def test_a_slice_without_a_limit_answers_as_the_card(machine: Machine, told: Slice) -> None:
    told.update(memory_limit=2**64 - 1)
    assert machine.run(told, *OPEN, "info") == machine.run(None, *OPEN, "info")


def test_what_a_sibling_held_is_free_soon_after_its_death(machine: Machine, told: Slice) -> None:
    """Somebody who asks all the time looks for the dead every tenth of a second."""
    victim = Client(machine, told, (*OPEN, f"alloc:{300 * MIB}"))
    asking = Client(machine, told, (*OPEN, "info"), *[("info",)] * 20)
    victim.process.kill()
    victim.process.communicate()
    deadline = time.monotonic() + 10
    for _ in range(20):
        asking.go_on()
        if told.stats.dead == 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.06)
    assert (told.stats.dead, told.stats.reaped) == (0, 1)
    asking.process.kill()
