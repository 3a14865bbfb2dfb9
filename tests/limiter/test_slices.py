"""Slice directories: made whole, found with a state, swept when nobody lives in them, never followed."""

import ctypes
import errno
import json
import os
import time

import pytest

from limiter import layout, slices, writer
from limiter.identity import Identity, Share, load_identity, rewrite
from limiter.pages import read_control
from tests.limiter.tenant import Tenant
from weir.errors import HostError

UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def identity(name="alice", **changes):
    share = Share(UUID, 0, 3 << 30, 3000, 3000)
    return Identity(name, 7, 1000.5, (share,), container=name, **changes)


@pytest.fixture
def make(tmp_path):
    """Makes a slice; its supervisor lives until the test ends, or `os.close` of what is returned."""
    locks = []

    def one(name="alice"):
        control = slices.first_control(identity(name), [100 << 30], [500])
        path, lock = slices.create(tmp_path, identity(name), control)
        locks.append(lock)
        return path, lock

    yield one
    for lock in locks:
        try:
            os.close(lock)
        except OSError:
            continue


def states(root):
    return {one.path.name: one.state for one in slices.observe(root)}


def test_a_new_slice_is_live_and_reads_as_it_was_made(make, tmp_path):
    make()
    (one,) = slices.observe(tmp_path)
    assert (one.state, one.supervised, one.identity) == ("live", True, identity())
    assert (one.control.devices[0].memory_limit, one.control.devices[0].context_bytes) == (3 << 30, 500)
    assert one.stats.generation == 7


def test_without_memory_asked_the_limit_is_the_card(tmp_path):
    free = Identity("free", 1, 0.0, (Share(UUID, 0, None),))
    path, lock = slices.create(tmp_path, free, slices.first_control(free, [100 << 30], [0]))
    os.close(lock)
    assert read_control(path / "control").devices[0].memory_limit == 100 << 30


def test_a_taken_name_is_refused_and_leaves_nothing(make, tmp_path):
    make()
    with pytest.raises(FileExistsError):
        make()
    assert [path.name for path in (tmp_path / "slices").iterdir()] == ["alice"]


def test_states_follow_who_lives(make, tmp_path):
    path, lock = make()
    tenant = Tenant(path / "rw/stats")
    tenant.attach(0, 512)
    with tenant.alive(0):
        assert states(tmp_path) == {"alice": "live"}
        os.close(lock)
        assert states(tmp_path) == {"alice": "orphan"}
    assert states(tmp_path) == {"alice": "stale"}


def test_only_stale_slices_are_swept(make, tmp_path):
    _, dead = make("dead")
    orphan, gone = make("orphan")
    make("living")
    os.close(dead)
    os.close(gone)
    tenant = Tenant(orphan / "rw/stats")
    tenant.attach(5, 512)
    with tenant.alive(5):
        assert [path.name for path in slices.sweep(tmp_path)] == ["dead"]
        assert states(tmp_path) == {"living": "live", "orphan": "orphan"}


def test_what_a_killed_maker_left_is_swept_when_it_is_old(tmp_path):
    left = tmp_path / "slices/.alice.123"
    left.mkdir(parents=True)
    slices.sweep(tmp_path)
    assert left.exists()
    slices.sweep(tmp_path, now=time.time() + 3600)
    assert not left.exists()


def test_a_link_in_the_place_of_a_slice_is_removed_and_not_followed(make, tmp_path):
    elsewhere, _ = make("elsewhere")
    link = tmp_path / "slices/link"
    link.symlink_to(elsewhere)
    slices.remove(link)
    (tmp_path / "slices/.left").symlink_to(elsewhere)
    slices.sweep(tmp_path, now=time.time() + 3600)
    assert [path.name for path in (tmp_path / "slices").iterdir()] == ["elsewhere"]
    assert (elsewhere / "control").exists()


def write(path, text):
    path.unlink()
    path.write_text(text)


def a_link(path):
    (path / "control").rename(path / "real")
    (path / "control").symlink_to("real")


def changed(**changes):
    def spoil(path):
        data = json.loads((path / "slice.json").read_text())
        write(path / "slice.json", json.dumps(data | changes))

    return spoil


def share(**changes):
    return changed(devices=[{"uuid": UUID, "index": 0, "memory_bytes": 1} | changes])


def another_card_in_stats(path):
    tenant = Tenant(path / "rw/stats")
    tenant.header.device_count = 2
    tenant.header.slot_stride += ctypes.sizeof(layout.SlotDevice)
    tenant.poke(0, tenant.header)
    os.truncate(path / "rw/stats", 1 << 22)


SPOILED = {
    "JSON without an end of nesting": lambda path: write(path / "slice.json", "[" * 60_000),
    "a pod that is a number": changed(pod=5),
    "a pod that cannot be written": changed(pod="\ud800"),
    "a generation of too many bits": changed(generation=1 << 64),
    "a creation that is no time": changed(created=float("nan")),
    "a creation that never comes": changed(created=float("inf")),
    "a UUID that is a number": share(uuid=5),
    "an index below 0": share(index=-1),
    "memory that is no number": share(memory_bytes=float("nan")),
    "memory of too many bits": share(memory_bytes=1 << 63),
    "more than all cores": share(cores_bp=10_001),
    "a guarantee that is text": share(guarantee_bp="1"),
    "a stats page for more cards": another_card_in_stats,
    "no slice.json": lambda path: (path / "slice.json").unlink(),
    "not JSON": lambda path: write(path / "slice.json", "\x00{"),
    "another kind of JSON": lambda path: write(path / "slice.json", "[1]"),
    "no devices": changed(devices=None),
    "a field too many": changed(devil=1),
    "a generation that is text": changed(generation="7"),
    "a UUID that is none": changed(devices=[{"uuid": "x", "index": 0, "memory_bytes": 1}]),
    "more cards than pages": changed(devices=[{"uuid": UUID, "index": i, "memory_bytes": 1} for i in (0, 1)]),
    "no control page": lambda path: (path / "control").unlink(),
    "a link for a page": a_link,
    "no stats page": lambda path: (path / "rw/stats").unlink(),
    "an empty stats page": lambda path: os.truncate(path / "rw/stats", 0),
    "a FIFO": lambda path: ((path / "slice.json").unlink(), os.mkfifo(path / "slice.json")),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_directory_is_corrupt_and_harms_no_other(case, make, tmp_path):
    path, _ = make("spoiled")
    make("whole")
    SPOILED[case](path)
    assert states(tmp_path) == {"spoiled": "corrupt", "whole": "live"}


def test_pages_that_cannot_be_paired_are_not_handed_out(make, tmp_path):
    path, _ = make()
    another_card_in_stats(path)
    (one,) = slices.observe(tmp_path)
    assert (one.identity.name, one.control, one.stats) == ("alice", None, None)


def test_junk_beside_the_slices_is_shown_and_never_followed(make, tmp_path):
    elsewhere, _ = make("whole")
    (tmp_path / "slices/file").write_text("x")
    (tmp_path / "slices/link").symlink_to(elsewhere)
    assert states(tmp_path) == {"file": "corrupt", "link": "corrupt", "whole": "live"}


def test_another_major_version_has_a_state_of_its_own(make, tmp_path):
    path, _ = make()
    tenant = Tenant(path / "rw/stats")
    tenant.header.major = 2
    tenant.poke(0, tenant.header)
    assert states(tmp_path) == {"alice": "version_mismatch"}


def test_a_root_that_is_not_there_has_no_slices(tmp_path):
    assert slices.observe(tmp_path / "none") == []


def test_a_damaged_stats_page_of_a_live_slice_is_made_anew(make, tmp_path):
    path, _ = make()
    os.truncate(path / "rw/stats", 100)
    assert states(tmp_path) == {"alice": "corrupt"}
    assert slices.sweep(tmp_path) == []
    (one,) = slices.observe(tmp_path)
    assert (one.state, one.stats.generation, len(one.stats.devices)) == ("live", 7, 1)


NOT_DAMAGED = {
    "a later major version": ("rw/stats", 8, b"\x09"),
    "no control page": ("control", 0, b"X"),
    "an unusual claim": ("rw/stats", layout.StatsHeader.heartbeat.offset, b"\xff" * 8),
}


@pytest.mark.parametrize(("page", "offset", "data"), NOT_DAMAGED.values(), ids=list(NOT_DAMAGED))
def test_a_page_of_another_version_or_a_good_one_is_not_made_anew(make, tmp_path, page, offset, data):
    path, _ = make()
    with (path / page).open("r+b") as file:
        file.seek(offset)
        file.write(data)
    before = (path / "rw/stats").stat().st_ino
    assert not slices.mend(path)
    assert (path / "rw/stats").stat().st_ino == before


def test_a_stats_page_that_cannot_be_made_anew_is_left(make, tmp_path):
    path, _ = make()
    (path / "rw/stats").unlink()
    (path / "rw/stats").mkdir()
    assert not slices.mend(path)
    slices.sweep(tmp_path)
    assert states(tmp_path) == {"alice": "corrupt"}


REPLACED = {
    "slice.json": lambda path: rewrite(path, load_identity(path)),
    "control": lambda path: writer.create_control(path / "control", read_control(path / "control")),
    "rw/stats": lambda path: writer.create_stats(path / "rw/stats", 7, 1),
}


@pytest.mark.parametrize("file", REPLACED)
def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(make, monkeypatch, file):
    path, _ = make()
    before = sorted(path.rglob("*")), (path / file).read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.rename", full)
    with pytest.raises((OSError, HostError), match="No space left on device"):
        REPLACED[file](path)
    assert (sorted(path.rglob("*")), (path / file).read_bytes()) == before
