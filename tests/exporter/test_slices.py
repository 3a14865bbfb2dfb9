"""The slices collector over real slice directories: what it reads, and what it survives."""

from __future__ import annotations

import os
import struct
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporter.collection import Collection
from exporter.render import Renderer
from exporter.report import report
from exporter.slices import SlicesCollector
from exporter.snapshot import Leased
from limiter import layout, slices, writer
from limiter.identity import Lease
from tests.exporter.builders import MIB, UUID, FakeCollector, gpus, snapshot
from tests.exporter.root import NOW, Root


def used(bytes_):
    return (bytes_ // layout.UNIT) << layout.WORD_SUM_SHIFT


@pytest.fixture
def root(tmp_path):
    made = Root(tmp_path)
    yield made
    made.close()


def test_no_root_is_no_slices(root):
    reading = SlicesCollector(root.path / "nowhere").collect()
    assert reading.containers == ()
    assert set(reading.regions.values()) == {0}


def test_a_slice_is_read_with_its_limits_and_claims(root):
    directory = root.slice("alice")
    root.stats(directory, used=used(600 * MIB), peak_bytes=700 * MIB, gpu_time=1_500_000_000, launches=42)
    root.stats(directory, denied_limit=2, denied_bytes=10 * MIB, throttled_time=250_000_000)
    (one,) = root.read().containers
    (claims,) = one.slices
    assert one.key == ("", "", "alice")
    assert (one.generation, one.policy, one.started) == (7, "fixed", 1_700_000_000.0)
    assert (claims.gpu_uuid, claims.index) == (UUID, 0)
    assert (claims.memory_used, claims.memory_peak) == (600 * MIB, 700 * MIB)
    assert (claims.memory_limit, claims.memory_requested, claims.core_limit) == (3000 * MIB, 3000 * MIB, 0.3)
    assert claims.core_requested == 0.3
    counters = claims.counters
    assert (counters.gpu_seconds, counters.throttled_seconds) == (1.5, 0.25)
    assert (counters.launches, counters.denied_limit, counters.denied_bytes) == (42, 2, 10 * MIB)


def test_a_container_on_two_cards_has_a_slice_on_each(root):
    directory = root.slice("alice", cards=2)
    root.stats(directory, device=1, launches=5)
    (one,) = root.read().containers
    assert [(claims.index, claims.counters.launches) for claims in one.slices] == [(0, 0), (1, 5)]


def test_monotonic_times_become_unix_times_that_are_never_ahead(root):
    directory = root.slice("alice")
    assert root.read().containers[0].slices[0].last_kernel is None
    root.stats(directory, last_launch=NOW.monotonic - 2_500_000_000)
    assert root.read().containers[0].slices[0].last_kernel == NOW.wall - 2.5
    root.stats(directory, last_launch=NOW.monotonic + 10**15)
    assert root.read().containers[0].slices[0].last_kernel == NOW.wall


@pytest.mark.parametrize(
    ("deadline", "limit", "cores"),
    [(NOW.monotonic + 1, 1000 * MIB, 0.1), (NOW.monotonic, 3000 * MIB, 0.3)],
    ids=["a lease in force", "a lease that has ended"],
)
def test_the_limit_shown_is_the_one_in_force(root, deadline, limit, cores):
    directory = root.slice("alice")
    page = slices.observe_one(directory).control
    lease = replace(
        page.devices[0], lease_deadline=deadline, lease_memory_limit=1000 * MIB, lease_core_limit=1000
    )
    writer.update_control(directory / "control", replace(page, devices=(lease,)))
    (claims,) = root.read().containers[0].slices
    assert (claims.memory_limit, claims.core_limit) == (limit, cores)


@pytest.mark.parametrize(
    ("left", "lease"),
    [(30 * 10**9, Leased(NOW.wall + 30, 1000 * MIB, 0.1)), (0, None)],
    ids=["a lease in force", "a lease that has ended"],
)
def test_a_lease_is_told_with_its_end_on_the_wall_clock(root, left, lease):
    root.slice("alice", lease=Lease(NOW.monotonic + left, 1000 * MIB, 1000))
    (one,) = root.read().containers
    assert one.lease == lease
    (told,) = report(snapshot(one), 0.0)["slices"]
    assert told["lease"] == (lease and {"ends": NOW.wall + 30, "memory_bytes": 1000 * MIB, "sm_ratio": 0.1})


@pytest.mark.parametrize(("asked", "frame"), [(0, None), (10, 0.01)])
def test_what_was_asked_of_its_turns_is_read(root, asked, frame):
    root.slice("alice", priority=0, frame_ms=asked)
    (one,) = root.read().containers
    assert (one.priority, one.frame) == (0, frame)


@pytest.mark.parametrize(
    ("deadline", "lives"),
    [(NOW.monotonic + 1, True), (NOW.monotonic, False), (0, None)],
    ids=["renewed", "passed", "an older page"],
)
def test_an_agent_lives_while_it_renews_the_page(root, deadline, lives):
    directory = root.slice("alice")
    page = slices.observe_one(directory).control
    renewed = replace(page.devices[0], card_deadline=deadline)
    writer.update_control(directory / "control", replace(page, devices=(renewed,)))
    assert root.read().containers[0].agent_lives is lives


def test_forgeries_that_the_agent_counted_in_the_page_are_the_container_s(root):
    directory = root.slice("alice")
    page = slices.observe_one(directory).control
    assert root.read().containers[0].forgeries == 0
    writer.update_control(directory / "control", replace(page, forgeries=4))
    assert root.read().containers[0].forgeries == 4


def test_no_limit_is_no_number(root):
    directory = root.slice("alice")
    page = slices.observe_one(directory).control
    free = replace(page.devices[0], memory_limit=layout.NO_LIMIT, core_limit=layout.FULL_CORES)
    writer.update_control(directory / "control", replace(page, devices=(free,)))
    (claims,) = root.read().containers[0].slices
    assert (claims.memory_limit, claims.core_limit) == (None, None)


def empty(path):
    path.write_bytes(b"")


def cut(path):
    os.truncate(path, 300)


def garbage(path):
    path.write_bytes(os.urandom(4096))


def other_major(path):
    with path.open("r+b") as page:
        page.seek(8)
        page.write(struct.pack("<H", 9))


def link(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def missing(path):
    path.unlink()


@pytest.mark.parametrize("file", ["rw/stats", "control"])
@pytest.mark.parametrize(
    ("damage", "state"),
    [(empty, "corrupt"), (cut, "corrupt"), (garbage, "corrupt"), (other_major, "version_mismatch"),
     (link, "corrupt"), (pipe, "corrupt"), (missing, "corrupt")],
    ids=lambda value: getattr(value, "__name__", value),
)  # fmt: skip
def test_a_damaged_page_is_counted_and_harms_no_other_slice(root, file, damage, state):
    damage(root.slice("bad") / file)
    root.slice("good")
    reading = root.read()
    assert [one.container for one in reading.containers] == ["good"]
    assert {name: n for name, n in reading.regions.items() if n} == {"live": 1, state: 1}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": 3}', '"\\udcff"'])
def test_a_damaged_identity_is_counted_and_harms_no_other_slice(root, text):
    (root.slice("bad") / "slice.json").write_text(text)
    root.slice("good")
    reading = root.read()
    assert [one.container for one in reading.containers] == ["good"]
    assert reading.regions["corrupt"] == 1


def test_a_slice_whose_owner_is_gone_is_stale_and_not_published(root):
    root.slice("gone", live=False)
    reading = root.read()
    assert reading.containers == ()
    assert reading.regions["stale"] == 1


def test_a_removed_slice_is_gone_at_once(root):
    directory, collector = root.slice("alice"), root.collector()
    assert len(collector.collect().containers) == 1
    slices.remove(directory)
    reading = collector.collect()
    assert reading.containers == ()
    assert set(reading.regions.values()) == {0}


def test_a_page_that_is_being_written_at_every_try_keeps_what_was_read_last(root):
    directory, collector = root.slice("alice"), root.collector()
    collector.collect()
    with (directory / "control").open("r+b") as page:
        page.seek(layout.ControlHeader.sequence.offset)
        page.write(struct.pack("<I", 5))
    reading = collector.collect()
    assert [one.container for one in reading.containers] == ["alice"]
    assert reading.torn_reads == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(
        st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=64)), min_size=1, max_size=8
    )
)
def test_whatever_a_tenant_writes_the_page_can_be_read(tmp_path_factory, writes):
    root = Root(tmp_path_factory.mktemp("root"))
    try:
        directory = root.slice("hostile")
        root.slice("good")
        with (directory / "rw/stats").open("r+b") as page:
            for offset, data in writes:
                page.seek(offset)
                page.write(data)
        collection = Collection(root.collector(), FakeCollector(gpus()), Renderer("0.1.0"))
        collection.collect_once()
        collection.collect_once()
        text = collection.page.text.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert "good" in {sample.labels["container"] for sample in families["weir_processes"].samples}
        assert collection.problem() == ""
    finally:
        root.close()


@pytest.mark.parametrize(
    ("hook", "launch", "said"),
    [(0, 0, (0, 0)), (5, 2, (3, 2)), (2, 9, (0, 2))],
    ids=["none", "both", "a page that contradicts itself"],
)
def test_the_limiter_s_own_errors_are_told_apart(root, hook, launch, said):
    directory = root.slice("alice")
    root.stats(directory, hook_errors=hook, launch_errors=launch)
    (container,) = root.read().containers
    assert container.hook_errors == {"memory": said[0], "launch": said[1]}


def test_calls_that_take_memory_unaccounted_for_are_told_by_what_they_were_for(root):
    directory = root.slice("alice")
    with (directory / "rw/stats").open("r+b") as page:
        page.seek(layout.StatsHeader.uncovered_calls.offset)
        page.write(struct.pack("<8Q", 1, 2, 3, 2**64 - 1, 5, 6, 7, 8))
    (container,) = root.read().containers
    assert container.unaccounted_calls == {"memory": 1, "shared": 2, "code": 3, "table": 2**63 - 1}
