"""Background collection: failures, ages, threads. Time is a fake clock wherever a value's age matters."""

from __future__ import annotations

import threading
import time

import pytest

from exporter.collection import Clocks, Collection, Settings
from exporter.render import Renderer
from tests.exporter.builders import FakeCollector, container, gpus, slices_reading


class FakeClock:
    def __init__(self):
        self.now = 100.0

    def clocks(self):
        return Clocks(monotonic=lambda: self.now, wall=lambda: 1_700_000_000.0 + self.now)


class Setup:
    def __init__(self, **settings):
        self.clock = FakeClock()
        self.slices = FakeCollector(slices_reading(container("alice")))
        self.nvml = FakeCollector(gpus())
        self.collection = Collection(
            self.slices,
            self.nvml,
            Renderer("0.1.0"),
            Settings(**{"period": 1.0, "max_age": 15.0, **settings}),
            self.clock.clocks(),
        )

    def tick(self, seconds=1.0):
        self.clock.now += seconds
        self.collection.collect_once()
        return self.collection.page.text.decode()


@pytest.fixture
def setup():
    return Setup()


def test_a_collection_that_worked_is_ready(setup):
    assert "nothing collected" in setup.collection.problem()
    setup.tick()
    assert setup.collection.problem() == ""


@pytest.mark.parametrize(("failing", "other"), [("slices", "nvml"), ("nvml", "slices")])
def test_a_failing_collector_lowers_its_success_and_nothing_else(setup, failing, other):
    setup.tick()
    getattr(setup, failing).next_error = RuntimeError("driver says no")
    page = setup.tick()
    assert f'weir_scrape_collector_success{{collector="{failing}"}} 0' in page
    assert f'weir_scrape_collector_success{{collector="{other}"}} 1' in page
    assert "driver says no" in setup.collection.problem()
    assert setup.tick().count("weir_scrape_collector_success{") == 2
    assert setup.collection.problem() == ""


def test_last_good_values_are_served_until_they_are_too_old(setup):
    setup.tick()
    for _ in range(3):
        setup.slices.next_error = OSError("gone")
        page = setup.tick(5.0)
        assert 'weir_processes{namespace="",pod="",container="alice"' in page
    setup.slices.next_error = OSError("gone")
    page = setup.tick(1.0)
    assert "weir_processes" not in page
    assert "weir_regions" not in page
    assert "weir_gpu_memory_used_bytes" in page


def test_the_time_of_the_last_success_stays_while_it_fails(setup):
    setup.tick()
    worked = 1_700_000_000.0 + setup.clock.now
    line = f'weir_collect_last_success_timestamp_seconds{{collector="nvml"}} {worked!r}'
    assert line in setup.collection.page.text.decode()
    setup.nvml.next_error = OSError("gone")
    assert line in setup.tick()


def test_a_slice_that_is_gone_is_gone_from_the_next_page(setup):
    assert 'container="alice"' in setup.tick()
    setup.slices.value = slices_reading()
    assert 'container="alice"' not in setup.tick()


def test_a_collector_that_does_not_answer_has_failed_before_it_returns(setup):
    setup.tick()
    during = []

    def hang():
        for seconds in (1.0, 60.0):
            setup.clock.now += seconds
            setup.collection.publish()
            during.append(setup.collection.problem())

    setup.nvml.hook = hang
    setup.tick()
    assert during == ["", "nvml: no answer for 61 s"]
    assert setup.collection.problem() == ""


def test_a_page_that_nobody_renewed_is_not_ready(setup):
    setup.tick()
    setup.clock.now += 60.0
    assert "old" in setup.collection.problem()


def test_a_collector_that_hangs_holds_up_nobody_else():
    nvml, release, seen = FakeCollector(gpus()), threading.Event(), threading.Semaphore(0)
    nvml.hook = release.wait
    slices = FakeCollector(slices_reading(container("alice")))
    slices.hook = seen.release
    collection = Collection(slices, nvml, Renderer("0.1.0"), Settings(period=0.01))
    collection.start()
    try:
        for _ in range(5):
            assert seen.acquire(timeout=10)
        assert b'container="alice"' in collection.page.text
        assert collection.alive
        assert "nvml: not collected yet" in collection.problem()
    finally:
        release.set()
        collection.stop()


def test_a_page_that_cannot_be_made_ends_no_later_one():
    setup = Setup(period=0.01)
    renderer, rendered = setup.collection._renderer, threading.Event()

    class Breaking:
        broken = True

        def render(self, snapshot):
            rendered.set()
            if self.broken:
                raise AttributeError("a value that nobody expected")
            return renderer.render(snapshot)

    setup.collection._renderer = breaking = Breaking()
    setup.collection.start()
    try:
        assert rendered.wait(10)
        wait_until(lambda: "nobody expected" in setup.collection.problem())
        breaking.broken = False
        wait_until(lambda: setup.collection.page is not None and not setup.collection.problem())
        assert setup.collection.alive
    finally:
        setup.collection.stop()


def wait_until(holds):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_slices_are_read_right_after_the_card_that_both_speak_of_one_moment():
    nvml, slices = FakeCollector(gpus()), FakeCollector(slices_reading())
    collection = Collection(slices, nvml, Renderer("0.1.0"), Settings(period=600.0))
    collection.start()
    try:
        wait_until(lambda: (nvml.calls, slices.calls) == (1, 1))
        collection._step_nvml()
        wait_until(lambda: slices.calls == 2)
    finally:
        collection.stop()
