"""What measuring rests on: the union of intervals, and estimates that follow measurements. All pure."""

from __future__ import annotations

import ctypes
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import hatch_build

SOURCES = Path(__file__).resolve().parents[2] / "limiter/src"
US, MS, S = 1_000, 1_000_000, 1_000_000_000
INTERVALS = 16


class Coverage(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint), ("intervals", ctypes.c_int64 * 2 * INTERVALS))


class Estimate(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_size_t),
        ("ns", ctypes.c_uint64),
        ("batch", ctypes.c_uint64),
        ("pending", ctypes.c_uint64),
        ("loaded", ctypes.c_bool),
        ("due", ctypes.c_uint64),
    )


class Estimates(ctypes.Structure):
    _fields_ = (("slots", Estimate * 2048), ("functions", ctypes.c_uint32))


class Note(ctypes.Structure):
    _fields_ = (("estimate", ctypes.POINTER(Estimate)), ("charged", ctypes.c_uint64))


@pytest.fixture(scope="module")
def measures(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("measures") / "measures.so"
    command = [*hatch_build.compiler(), *hatch_build.COMMON, "-Werror", "-shared", "-fPIC", f"-I{SOURCES}"]
    sources = [str(SOURCES / "coverage.c"), str(SOURCES / "estimates.c")]
    subprocess.run([*command, "-o", str(library), *sources], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.coverage_add.restype = ctypes.c_int64
    loaded.estimate_due_in.restype = ctypes.c_uint64
    loaded.estimate_due_in.argtypes = [ctypes.POINTER(Estimates), ctypes.c_bool, ctypes.c_uint64]
    loaded.estimate_correct.argtypes = [ctypes.POINTER(Estimate), ctypes.c_uint64]
    loaded.coverage_add.argtypes = [ctypes.POINTER(Coverage), ctypes.c_int64, ctypes.c_int64]
    loaded.coverage_share.restype = ctypes.c_int64
    loaded.coverage_share.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int64, ctypes.c_int64]
    loaded.estimate_learn.argtypes = [ctypes.POINTER(Estimate), ctypes.c_uint64, ctypes.c_uint32]
    loaded.estimate_scale.argtypes = [ctypes.POINTER(Note), ctypes.c_uint, ctypes.c_uint64, ctypes.c_uint64]
    loaded.estimate_claim.restype = ctypes.POINTER(Estimate)
    loaded.estimate_claim.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return loaded


class TestCoverage:
    @pytest.mark.parametrize(
        ("intervals", "added"),
        [
            ([(0, 10)], [10]),
            ([(0, 10), (10, 20)], [10, 10]),
            ([(0, 10), (5, 15)], [10, 5]),
            ([(0, 10), (2, 8)], [10, 0]),
            ([(2, 8), (0, 10)], [6, 4]),
            ([(0, 2), (8, 10), (0, 10)], [2, 2, 6]),
            ([(8, 10), (0, 2), (3, 5)], [2, 2, 2]),
            pytest.param([(5, 5), (7, 3)], [0, 0], id="empty"),
        ],
    )
    def test_counts_what_was_not_covered_before(
        self, measures: Any, intervals: list[tuple[int, int]], added: list[int]
    ) -> None:
        coverage = Coverage()
        assert [measures.coverage_add(ctypes.byref(coverage), *one) for one in intervals] == added

    def test_overlapping_streams_add_up_to_their_union(self, measures: Any) -> None:
        """Four streams of batches, told a little out of order, against a count of each microsecond."""
        chance, coverage, total, truth = random.Random(3), Coverage(), 0, set()
        batches = []
        for _ in range(4):
            at = 0
            while at < 20_000:
                gap, length = chance.choice([0, 0, 150]), chance.randrange(20, 900)
                batches.append((at + gap, at + gap + length))
                at += gap + length
        for start, end in sorted(batches, key=lambda one: one[1] + chance.randrange(300)):
            total += measures.coverage_add(ctypes.byref(coverage), start, end)
            truth.update(range(start, end))
            assert coverage.count <= INTERVALS
        assert total == len(truth)

    def test_many_separate_intervals_push_out_the_oldest_only(self, measures: Any) -> None:
        coverage = Coverage()
        for index in range(100):
            assert measures.coverage_add(ctypes.byref(coverage), index * 10, index * 10 + 5) == 5
        assert measures.coverage_add(ctypes.byref(coverage), 990, 995) == 0


class TestSharedCoverage:
    """Words of 1.024 us: both ends of an interval are rounded to them."""

    UNIT = 1024

    def share(self, measures: Any, words: Any, *interval: int) -> int:
        start, end = (5_000_000 * S + one * self.UNIT for one in interval)
        return int(measures.coverage_share(words, len(words), start, end)) // self.UNIT

    @pytest.mark.parametrize(
        ("intervals", "added"),
        [
            ([(0, 10), (10, 20), (5, 25)], [10, 10, 5]),
            ([(0, 10), (2, 8)], [10, 0]),
            ([(0, 2), (8, 10), (0, 10)], [2, 2, 6]),
            ([(20, 30), (0, 10), (5, 25)], [10, 10, 10]),
            pytest.param([(7, 3)], [0], id="empty"),
            pytest.param([(0, 100_000_000), (99_999_000, 100_000_500)], [100_000_000, 500], id="very long"),
        ],
    )
    def test_processes_are_charged_for_what_none_was_charged_for(
        self, measures: Any, intervals: list[tuple[int, int]], added: list[int]
    ) -> None:
        words = (ctypes.c_uint64 * 6)()
        assert [self.share(measures, words, *one) for one in intervals] == added

    def test_a_chain_of_intervals_stays_one_word_and_pushes_nothing_out(self, measures: Any) -> None:
        words = (ctypes.c_uint64 * 6)()
        assert self.share(measures, words, 0, 10) == 10
        for index in range(100):
            assert self.share(measures, words, 20 + index, 21 + index) == 1
        assert [bool(word) for word in words] == [True, True, False, False, False, False]
        assert self.share(measures, words, 0, 10) == 0

    @pytest.mark.parametrize("word", [1, 2**63, 2**64 - 1])
    def test_a_word_of_noise_takes_at_most_the_interval_away(self, measures: Any, word: int) -> None:
        words = (ctypes.c_uint64 * 6)(*[word] * 6)
        assert 0 <= self.share(measures, words, 0, 50) <= 50

    def test_threads_that_enter_touching_intervals_at_once_lose_none(self, measures: Any) -> None:
        words, sums = (ctypes.c_uint64 * 6)(), [0, 0]

        def enter(thread: int) -> None:
            for index in range(2000):
                sums[thread] += self.share(measures, words, index * 10, index * 10 + 10)

        threads = [threading.Thread(target=enter, args=(one,)) for one in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 20_000 <= sum(sums) <= 40_000


class TestEstimate:
    def learn(self, measures: Any, estimate: Estimate, measured: int, launches: int = 1) -> int:
        measures.estimate_learn(ctypes.byref(estimate), measured, launches)
        return int(estimate.ns)

    def test_the_first_measurement_is_taken_as_it_is(self, measures: Any) -> None:
        assert self.learn(measures, Estimate(), 20 * MS, 4) == 5 * MS

    def test_falls_fast_and_rises_slowly(self, measures: Any) -> None:
        assert self.learn(measures, Estimate(ns=8 * MS), 4 * MS) == 6 * MS
        assert self.learn(measures, Estimate(ns=8 * MS), 16 * MS) == 9 * MS

    @pytest.mark.parametrize("start", [1 * US, 1 * MS, 100 * MS])
    def test_comes_to_what_is_measured_again_and_again(self, measures: Any, start: int) -> None:
        estimate = Estimate(ns=start)
        for _ in range(80):
            self.learn(measures, estimate, 3 * MS)
        assert estimate.ns == pytest.approx(3 * MS, rel=0.01)

    @pytest.mark.parametrize(("measured", "least"), [(0, 1 * US), (10**12, 60 * 10**9)])
    def test_stays_within_bounds(self, measures: Any, measured: int, least: int) -> None:
        assert self.learn(measures, Estimate(), measured) == least

    def test_batches_charged_alike_and_measured_together_do_not_multiply_up(self, measures: Any) -> None:
        """Each says "twice as long as charged"; after many the estimate is twice, not two to the many."""
        estimates = [Estimate(ns=1 * MS), Estimate(ns=3 * MS)]
        notes = (Note * 2)(*(Note(ctypes.pointer(one), one.ns) for one in estimates))
        for _ in range(200):
            measures.estimate_scale(notes, 2, 4 * MS, 8 * MS)
        assert [one.ns for one in estimates] == [
            pytest.approx(2 * MS, rel=0.01),
            pytest.approx(6 * MS, rel=0.01),
        ]

    @pytest.mark.parametrize(("known", "measured", "then"), [(15, 3, 9), (4, 12, 5), (2, 2000, 2.5)])
    def test_a_launch_timed_by_itself_corrects_it_by_a_part_and_one_that_was_disturbed_hardly(
        self, measures: Any, known: float, measured: float, then: float
    ) -> None:
        estimate = Estimate(ns=int(known * US))
        measures.estimate_correct(ctypes.byref(estimate), int(measured * US))
        assert estimate.ns == pytest.approx(then * US, abs=1)

    @pytest.mark.parametrize(("functions", "every"), [(1, 200 * MS), (50, 200 * MS), (1000, 2000 * MS)])
    def test_a_function_is_due_at_times_that_nobody_foresees(
        self, measures: Any, functions: int, every: int
    ) -> None:
        table = Estimates(functions=functions)
        moments = range(10**9, 10**9 + 500)
        times = [measures.estimate_due_in(ctypes.byref(table), True, ticks) for ticks in moments]
        assert every / 2 <= min(times) < 0.55 * every
        assert 1.45 * every < max(times) < 1.5 * every

    def test_a_full_neighbourhood_gives_up_a_place_rather_than_a_measurement(self, measures: Any) -> None:
        table = Estimates()
        seen = [measures.estimate_claim(ctypes.byref(table), 64 * index + 1) for index in range(5000)]
        assert all(seen)
        again = measures.estimate_claim(ctypes.byref(table), 64 * 4999 + 1)
        assert again.contents.function == 64 * 4999 + 1
