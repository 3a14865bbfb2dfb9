"""Processes on a card held against slots: whose bytes they are, and who was never held."""

from dataclasses import replace

import pytest

from exporter.audit import Audit, audited
from exporter.snapshot import GpusReading
from limiter.belonging import Origin
from tests.exporter.builders import MIB, claims, container, gpus, states
from weir.nvml import GpuProcess

ALICE = container("alice", path="/slices/alice", supervisor=100, pids=(110,))
BOB = container("bob", path="/slices/bob", supervisor=200, pids=())


def look(on_card, *origins):
    reading = gpus(*(GpuProcess(pid, used * MIB) for pid, used in on_card.items()))
    known = None if not origins else {one.pid: one for one in origins}
    seen, cards = audited(states(ALICE, BOB), replace(reading, origins=known))
    return {one.container.container: one for one in seen}, cards.gpus[0]


def child_of(supervisor, pid):
    return Origin(pid, inner=pid, ancestors=frozenset({supervisor}))


def test_a_process_without_a_slot_is_charged_to_the_slice_it_came_from():
    slices, card = look(
        {110: 600, 111: 90, 210: 50}, *[child_of(100, 110), child_of(100, 111), child_of(200, 210)]
    )
    assert (slices["alice"].strays, slices["alice"].driver_used) == ((111,), 690 * MIB)
    assert (slices["bob"].strays, slices["bob"].driver_used) == ((210,), 50 * MIB)
    assert card.outside == ()


def test_what_nvml_said_is_not_repeated_when_it_says_nothing_more():
    said, _ = audited(states(ALICE), gpus(GpuProcess(110, MIB)))
    (now,), _ = audited(said, GpusReading())
    assert (said[0].driver_used, now.driver_used, now.strays) == (MIB, None, None)


def test_one_of_no_slice_is_the_cards():
    slices, card = look({110: 600, 9: 70}, child_of(100, 110), Origin(9))
    assert (slices["alice"].strays, slices["alice"].driver_used) == ((), 600 * MIB)
    assert (card.outside, card.outside_bytes) == ((9,), 70 * MIB)


def test_a_slot_of_another_pid_namespace_is_found_by_the_id_it_has_there():
    slices, _ = look({9000: 600}, Origin(9000, inner=110, ancestors=frozenset({100})))
    assert (slices["alice"].strays, slices["alice"].driver_used) == ((), 600 * MIB)


@pytest.mark.parametrize(("on_card", "bytes_known"), [({110: 600}, 600 * MIB), ({9: 600}, None)])
def test_where_ids_mean_nothing_here_nobody_is_called_a_stray(on_card, bytes_known):
    slices, card = look(on_card)
    assert (slices["alice"].strays, card.outside) == (None, None)
    assert slices["alice"].driver_used == bytes_known


def verdicts(*looks):
    """What is said of alice after each look: (bytes of each process on the card, her ledger's)."""
    audit, said = Audit(), []
    for on_card, used in looks:
        alice = replace(ALICE, slices=(claims(memory_used=used * MIB, memory_managed=0),))
        reading = gpus(*(GpuProcess(pid, size * MIB) for pid, size in on_card.items()))
        origins = {pid: child_of(100, pid) if pid < 200 else Origin(pid) for pid in on_card}
        reading = replace(reading, origins=origins)
        (one,) = audit.look(states(alice), reading)
        said.append((one.unaccounted // MIB, one.strays, audit.onto(reading).gpus[0].outside))
    return said


CALM = ({110: 600}, 600)


@pytest.mark.parametrize(
    ("accusing", "verdict"),
    [
        (({110: 600}, 100), (500, (), ())),
        (({110: 600, 111: 90}, 690), (0, (111,), ())),
        (({110: 600, 900: 90}, 600), (0, (), (900,))),
    ],
    ids=["more than the ledger", "a process without a slot", "a process of no slice"],
)
def test_what_one_reading_says_is_held_against_nobody_until_the_next_agrees(accusing, verdict):
    nothing = (0, (), ())
    assert verdicts(CALM, accusing, CALM, accusing, accusing) == [nothing] * 4 + [verdict]
    assert verdicts(accusing) == [verdict]  # there is nothing to compare the first one with


def test_less_of_two_readings_is_unaccounted_for():
    assert verdicts(CALM, ({110: 900}, 600), ({110: 1100}, 600))[-1] == (300, (), ())


def test_a_reading_that_was_looked_at_before_is_no_second_one():
    audit, calm = Audit(), replace(gpus(GpuProcess(110, 600 * MIB)), origins={110: child_of(100, 110)})
    audit.look(states(ALICE), calm)
    later = replace(calm)
    for used in (600, 100, 100):  # freed after the card was asked
        alice = replace(ALICE, slices=(claims(memory_used=used * MIB, memory_managed=0),))
        (one,) = audit.look(states(alice), later)
        assert one.unaccounted == 0
