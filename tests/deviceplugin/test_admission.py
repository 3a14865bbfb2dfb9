"""What fits beside the slices that live and the programs outside of any."""

from pathlib import Path

import pytest

from deviceplugin.admission import admit, room
from limiter.identity import Identity, Share
from limiter.pages import DeviceStats, StatsPage
from limiter.slices import Observation
from tests.deviceplugin.fakes import GIB, UUIDS, gpu
from weir.errors import DoesNotFitError


def observed(memory, used, cores=0, state="live", uuid=UUIDS[0]):
    stats = DeviceStats(used, *[0] * 19)
    return Observation(
        Path("/slice"),
        state,
        identity=Identity("x", 1, 0.0, (Share(uuid, 0, memory, cores or 10_000, cores),)),
        stats=StatsPage(1, 0, 0, "", (stats,)),
    )


LEFT = {
    "an empty card": ([], 0, 100 * GIB, 10_000),
    "promised counts, used or not": ([observed(30 * GIB, 0, 3000)], 0, 70 * GIB, 7000),
    "promised and used counts once": ([observed(30 * GIB, 20 * GIB, 3000)], 20 * GIB, 70 * GIB, 7000),
    "a slice without a limit counts as used": ([observed(None, 40 * GIB)], 40 * GIB, 60 * GIB, 10_000),
    "programs outside count": ([], 25 * GIB, 75 * GIB, 10_000),
    "outside beside a slice": ([observed(30 * GIB, 20 * GIB)], 25 * GIB, 65 * GIB, 10_000),
    "an orphan still counts": ([observed(30 * GIB, 0, 3000, state="orphan")], 0, 70 * GIB, 7000),
    "a stale one does not": ([observed(30 * GIB, 0, 3000, state="stale")], 0, 100 * GIB, 10_000),
    "another card's does not": ([observed(30 * GIB, 0, 3000, uuid=UUIDS[1])], 0, 100 * GIB, 10_000),
    "a ledger above NVML hides nobody": ([observed(30 * GIB, 20 * GIB)], 10 * GIB, 70 * GIB, 10_000),
    "never below nothing": ([observed(90 * GIB, 0, 9000)] * 2, 0, 0, 0),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left(case):
    slices, card_used, memory, cores = LEFT[case]
    left = room(gpu(), card_used, slices)
    assert (left.memory, left.cores) == (memory, cores)


def share(memory, cores=0):
    return Share(UUIDS[0], 0, memory, cores or 10_000, cores)


def test_what_fits_exactly_is_admitted():
    left = room(gpu(), 0, [observed(30 * GIB, 0, 3000)])
    admit([share(70 * GIB, 7000)], [left])
    admit([share(None)], [left])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (share(71 * GIB), "--memory: 71 GiB: .*70 GiB of 100 GiB left"),
        (share(1, 7100), "--cores: 71: .*70 % left"),
    ],
)
def test_what_does_not_fit_is_told_what_is_left(asked, said):
    left = room(gpu(), 0, [observed(30 * GIB, 0, 3000)])
    with pytest.raises(DoesNotFitError, match=said):
        admit([asked], [left])


def test_every_card_must_have_room():
    full = room(gpu(1), 100 * GIB, [])
    with pytest.raises(DoesNotFitError, match="GPU 1"):
        admit([share(GIB), share(GIB)], [room(gpu(0), 0, []), full])
