"""What a lease makes of a card's control fields, beside a time slot's cap."""

from dataclasses import replace

import pytest

from deviceplugin.agent import with_turn
from deviceplugin.change import Change, remarks
from deviceplugin.lease import obeys, parse_lease, with_lease
from deviceplugin.slots import Turn
from limiter import layout
from limiter.identity import Identity, Lease, Share
from limiter.pages import ControlDevice
from tests.deviceplugin.fakes import GIB, UUIDS
from weir.errors import UsageError

NOW = 10**12
SECOND = 10**9
MINUTE = Lease(NOW + 60 * SECOND, GIB, 1000)
HELD = ControlDevice(b"x" * 16, memory_limit=4 * GIB, core_limit=3000)
FREE = replace(HELD, core_limit=layout.FULL_CORES)
SLOT = Turn(frame=20_000_000, length=8_000_000, share=4000)


def in_force(control, at):
    return control.memory_limit_at(at) // GIB, control.core_limit_at(at)


@pytest.mark.parametrize(
    ("control", "turn", "lease", "now", "at_its_end"),
    [
        (HELD, Turn(), MINUTE, (1, 1000), (4, 3000)),
        (HELD, Turn(), replace(MINUTE, memory_bytes=None), (4, 1000), (4, 3000)),
        (HELD, Turn(), replace(MINUTE, cores_bp=5000), (1, 3000), (4, 3000)),
        (HELD, Turn(), Lease(NOW, GIB, 1000), (4, 3000), (4, 3000)),
        (HELD, replace(SLOT, share=6000), MINUTE, (1, 1000), (4, 3000)),
        (FREE, SLOT, MINUTE, (1, 1000), (4, 10_000)),
        (FREE, SLOT, replace(MINUTE, cores_bp=5000), (1, 4000), (4, 10_000)),
        (FREE, SLOT, Lease(), (4, 4000), (4, 10_000)),
    ],
    ids=["both", "cores", "no more cores", "ended", "a loan", "a slot's cap", "a lower cap", "a slot alone"],
)
def test_the_lowest_limit_is_in_force_until_the_deadline(control, turn, lease, now, at_its_end):
    fields = with_lease(with_turn(control, turn, NOW), lease, NOW)
    assert in_force(fields, NOW) == now
    assert in_force(fields, fields.lease_deadline) == at_its_end
    share = Share(UUIDS[0], 0, 4 * GIB, control.core_limit)
    assert obeys(fields, Identity("a", 1, 0.0, (share,), lease=lease), NOW)


def test_a_page_that_does_not_say_it_yet_does_not_obey():
    identity = Identity("a", 1, 0.0, (Share(UUIDS[0], 0, 4 * GIB, 3000),), lease=MINUTE)
    assert not obeys(HELD, identity, NOW)
    ended = replace(identity, lease=Lease())
    assert not obeys(with_lease(HELD, MINUTE, NOW), ended, NOW)


@pytest.mark.parametrize(
    ("backend", "turn", "done"),
    [("weir", Turn(), False), ("mps", Turn(), False), ("weir", SLOT, True)],
    ids=["nothing else caps it", "nor MPS", "a slot does, for all that the page says"],
)
def test_a_lease_of_an_uncapped_slice_ends_with_its_page(backend, turn, done):
    fields = with_lease(with_turn(FREE, turn, NOW), replace(MINUTE, memory_bytes=None), NOW)
    identity = Identity("a", 1, 0.0, (Share(UUIDS[0], 0, 4 * GIB),), lease=Lease(), backend=backend)
    assert obeys(fields, identity, NOW) == done
    assert obeys(with_lease(with_turn(FREE, turn, NOW), Lease(), NOW), identity, NOW)


def test_while_a_slot_caps_too_the_deadline_is_the_slot_s():
    fields = with_lease(with_turn(FREE, SLOT, NOW), MINUTE, NOW)
    assert fields.lease_deadline < NOW + 2 * SECOND


ONE = Identity("a", 1, 0.0, (Share(UUIDS[0], 0, 4 * GIB, 3000, 3000),))
TWO = replace(ONE, devices=(*ONE.devices, Share(UUIDS[1], 1, 4 * GIB, 6000, 6000)))
UNASKED = replace(ONE, devices=(Share(UUIDS[0], 0, None),))
SHORT, LONG = {"lease_s": 30}, {"lease_s": None}


@pytest.mark.parametrize(
    ("identity", "asked", "memory", "cores", "said"),
    [
        (ONE, {**SHORT, "memory": "1GiB", "cores": "10"}, GIB, 1000, []),
        (ONE, {**SHORT, "cores": "30"}, None, 3000, ["--cores 30 lowers nothing"]),
        (ONE, {**SHORT, "memory": "4GiB", "cores": "10"}, 4 * GIB, 1000, ["--memory 4GiB lowers nothing"]),
        (ONE, {**SHORT, "memory": "1GiB", "cores": "50"}, GIB, 5000, ["--cores 50 lowers nothing"]),
        (TWO, {**SHORT, "cores": "50"}, None, 5000, []),
        (UNASKED, {**SHORT, "memory": "1GiB", "cores": "50"}, GIB, 5000, []),
        (UNASKED, {**SHORT, "cores": "100"}, None, 10_000, ["--cores 100 lowers nothing"]),
        (replace(ONE, policy="burst"), {**SHORT, "cores": "50"}, None, 5000, []),
        (replace(ONE, backend="mps"), {**SHORT, "cores": "50"}, None, 5000, []),
        (ONE, {**LONG, "cores": "30"}, None, 1000, ["--cores 30 holds when its lease ends, in 60 s"]),
        (ONE, {**LONG, "cores": "30"}, GIB, 10_000, []),
        (ONE, {**LONG, "memory": "4GiB"}, GIB, 1000, ["--memory 4GiB holds when its lease ends, in 60 s"]),
        (ONE, {**LONG, "memory": "4GiB", "cores": "30"}, None, 3000, []),
    ],
)
def test_whoever_asks_is_told_where_a_lease_lowers_nothing_or_still_lowers(
    identity, asked, memory, cores, said
):
    leased = replace(identity, lease=Lease(NOW + 60 * SECOND, memory, cores))
    told = list(remarks(leased, Change(**asked), NOW))
    assert [one[: len(start)] for one, start in zip(told, said, strict=True)] == said
    assert list(remarks(leased, Change(**asked), leased.lease.deadline)) == []


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("0", 0), ("30", 30), ("5m", 300), ("1h", 3600)])
def test_times_are_read(text, seconds):
    assert parse_lease(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "61m", "2h", "3601", "1.5m", "1d", "forever"])
def test_other_times_are_refused(text):
    with pytest.raises(UsageError, match="0, or a time up to 1h"):
        parse_lease(text)
