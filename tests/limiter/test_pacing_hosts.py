"""Pacing of programs whose hosts set the pace: those that wait for events, and those that launch slowly.

In the virtual world of test_pacing.py. The question is what the GPU's idle time between launches costs: it
may not be charged, and to tell it from work may take few timing events.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from .world import H200, World


class TestWaitsForEvents:
    """A program that records an event after each step and waits for that of `ahead` steps ago."""

    FED: ClassVar = {"ahead": 64, "step": 2, "kernel_us": 14, "mark_us": 3, "warmup": 1, "seconds": 3}
    SLOW_HOST: ClassVar = {**FED, **H200, "host_us": 12, "step_idle_us": 4}
    EACH_STEP: ClassVar = {**FED, "ahead": 0}

    @pytest.mark.parametrize("host", [{}, {"host_us": 10}, {"host_us": 10, "step_idle_us": 8}], ids=str)
    @pytest.mark.parametrize("ahead", [1, 2, 64])
    def test_who_keeps_the_gpu_fed_pays_for_hardly_any_timing_event(
        self, world: World, ahead: int, host: dict[str, float]
    ) -> None:
        """Without a limit; a host as quick as the GPU has its events complete when it comes to wait."""
        result = world(**{**self.FED, **host, "ahead": ahead})
        assert result["records"] / result["wall_ms"] < 0.35
        assert result["calls"] / result["launches"] < 1
        busiest = min(1, 28 / (2 * host.get("host_us", 3.5) + host.get("step_idle_us", 0) + 0.6))
        assert result["share"] == pytest.approx(busiest, abs=0.01)

    @pytest.mark.parametrize("limit", [3000, 6000, 9000])
    def test_under_a_limit_it_gets_its_share_for_an_event_or_two_in_a_millisecond_of_work(
        self, world: World, limit: int
    ) -> None:
        result = world(**self.FED, limit=limit)
        assert result["share"] == pytest.approx(limit / 10_000, abs=0.005)
        assert result["records"] / (result["wall_ms"] * result["share"]) < 1.6

    @pytest.mark.parametrize(("step", "least"), [(2, 0.275), (20, 0.295)])
    @pytest.mark.parametrize("limit", [3000, 6000])
    def test_who_waits_for_each_step_gets_its_share_too(
        self, world: World, limit: int, step: int, least: float
    ) -> None:
        result = world(**{**self.EACH_STEP, "mark_us": 0, "step": step}, limit=limit)
        assert least * limit / 3000 <= result["share"] <= limit / 10_000 + 0.001

    @pytest.mark.parametrize("idle_us", [20, 200, 2000])
    def test_idling_after_each_wait_is_not_charged(self, world: World, idle_us: int) -> None:
        result = world(**{**self.EACH_STEP, "step": 20, "mark_us": 0}, step_idle_us=idle_us)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)
        assert result["counted"] == result["launches"]

    def test_waiting_now_for_old_events_and_now_for_the_last_is_not_charged_its_idle_time(
        self, world: World
    ) -> None:
        mixed = {**self.FED, "step": 20, "mark_us": 0, "drain_every": 7}
        result = world(**mixed, drain_idle_us=900)
        assert result["share"] < 0.9
        assert result["claimed"] == pytest.approx(result["share"], abs=0.02)

    @pytest.mark.parametrize(("idle_us", "share"), [(16, 0.69), (24, 0.57)])
    def test_a_host_slower_than_the_gpu_is_charged_about_its_kernels(
        self, world: World, idle_us: int, share: float
    ) -> None:
        """Kernels are timed by themselves, with nothing of the host's between their events."""
        result = world(**{**self.SLOW_HOST, "step_idle_us": idle_us})
        assert result["share"] == pytest.approx(share, abs=0.01)
        assert result["claimed"] == pytest.approx(result["share"], rel=0.02)
        assert result["records"] / result["wall_ms"] < 1

    def test_its_kernels_that_become_longer_are_noticed(self, world: World) -> None:
        slow = {**self.SLOW_HOST, "step_idle_us": 30, "warmup": 2}
        result = world(**slow, longer_at=1, longer=1.5)
        assert 0.93 * result["share"] <= result["claimed"] < result["share"] * 1.16

    def test_gaps_that_leave_the_gpu_fed_do_not_keep_a_batch_open(self, world: World) -> None:
        result = world(ahead=64, step=1, kernel_us=200, warmup=1)
        assert 0.15 < result["records"] / result["wall_ms"] < 0.25
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)

    def test_a_queue_of_any_depth_is_measured_with_a_bounded_number_of_events(self, world: World) -> None:
        result = world(ahead=1000, step=1, kernel_us=6000, seconds=30)
        assert result["events"] < 300
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)
        assert result["counted"] == result["launches"]

    def test_a_limit_that_begins_to_bind_does_so_at_once(self, world: World) -> None:
        both = world(**{**self.FED, "warmup": 0, "seconds": 4}, changes_at=2, then_limit=3000)
        assert both["share"] == pytest.approx((1 + 0.30) / 2, abs=0.01)


class TestSlowHosts:
    """Kernels of 2 us, a host that needs longer for each: as PyTorch with small models."""

    STEPS: ClassVar[dict[str, float]] = {
        "kernel_us": 2.2,
        "functions": 12,
        "think_us": 5,
        "seconds": 5,
        "warmup": 1,
    }
    INFERENCE: ClassVar[dict[str, float]] = {**STEPS, "step": 72, "ahead": 0, "step_idle_us": 20}
    TRAINING: ClassVar[dict[str, float]] = {**STEPS, "step": 1000, "ahead": 8}

    @pytest.mark.parametrize("load", [INFERENCE, TRAINING], ids=["inference", "training"])
    @pytest.mark.parametrize("pauses", [{"think_us": 12}, {"pause_every": 5, "pause_us": 60}], ids=str)
    @pytest.mark.parametrize("drift_ppm", [-20, 0, 20])
    def test_are_charged_for_kernels_and_not_for_launches_and_keep_their_pace(
        self, world: World, load: dict[str, float], pauses: dict[str, float], drift_ppm: int
    ) -> None:
        settings = {**load, **pauses, "mark_us": 2.4, "gap_us": 1.0, "drift_ppm": drift_ppm}
        free, held = world(**settings), world(**settings, limit=3000)
        assert held["claimed"] == pytest.approx(free["share"], rel=0.02)
        assert held["launches"] > 0.99 * free["launches"]

    def test_pay_for_few_timing_events(self, world: World) -> None:
        result = world(**self.INFERENCE, pause_every=5, pause_us=60, mark_us=2.4, gap_us=1.0)
        assert result["records"] / result["launches"] < 0.05

    @pytest.mark.parametrize("drift_ppm", [-20, 0, 20])
    @pytest.mark.parametrize("warmup", [4, 4.003, 7.1])
    @pytest.mark.parametrize("limit", [3000, 10_000])
    def test_estimates_that_have_become_the_pace_of_launches_come_down(
        self, world: World, limit: int, warmup: float, drift_ppm: int
    ) -> None:
        """Kernels of 22 us, so the GPU sets the pace, that are of 2 us from the first second on."""
        was = {**self.INFERENCE, "kernel_us": 22, "longer_at": 1, "longer": 0.1, "think_us": 12}
        result = world(**{**was, "warmup": warmup}, mark_us=2.4, gap_us=1.0, limit=limit, drift_ppm=drift_ppm)
        assert result["claimed"] == pytest.approx(result["share"], rel=0.02)
        assert result["share"] > 0.13

    @pytest.mark.parametrize("limit", [3000, 10_000])
    def test_a_launching_call_longer_than_the_kernel_is_charged_for_once(
        self, world: World, limit: int
    ) -> None:
        """Its first times hold that call."""
        slow = {**self.INFERENCE, "think_us": 0, "host_us": 15, "mark_us": 2.4, "gap_us": 1.0, "warmup": 7}
        result = world(**slow, limit=limit)
        assert result["claimed"] == pytest.approx(result["share"], rel=0.02)

    @pytest.mark.parametrize("host", [{"host_us": 17}, {"host_us": 8, "think_us": 9}], ids=str)
    def test_kernels_hardly_shorter_than_their_launches_are_charged_for(
        self, world: World, host: dict[str, float]
    ) -> None:
        """For hardly more than what they are, though nobody sees the GPU wait between them."""
        result = world(kernel_us=14, queue=1000, mark_us=2.4, gap_us=1.0, warmup=4, **host)
        assert result["share"] * 0.98 < result["claimed"] < result["smooth"]
        held = world(kernel_us=14, queue=1000, mark_us=2.4, gap_us=1.0, warmup=4, limit=5000, **host)
        assert held["share"] == pytest.approx(0.5, abs=0.005)

    @pytest.mark.parametrize("pauses", [{}, {"pause_every": 20, "pause_us": 70}], ids=str)
    @pytest.mark.parametrize("think_us", [24, 29, 40])
    def test_a_function_on_small_and_large_grids_is_charged_for_each(
        self, world: World, think_us: int, pauses: dict[str, float]
    ) -> None:
        """The host is hardly slower than the GPU, so most is charged as estimated."""
        two = {"kernel_us": 6, "second_us": 60, "second_grid": 16, "functions": 20, "host_us": 5}
        steps = {"step": 400, "ahead": 2, "think_us": think_us, "mark_us": 2.4, "gap_us": 1.0, "warmup": 2}
        result = world(**two, **steps, **pauses, limit=3000)
        assert 0.22 < result["share"] < 0.302

    @pytest.mark.parametrize(
        ("longer", "one_in", "think_us"),
        [(25, 4, 60), (125, 8, 100), (125, 8, 20), (2500, 50, 60), (2500, 200, 60)],
    )
    @pytest.mark.parametrize("limit", [1000, 3000])
    def test_a_function_that_takes_long_now_and_then_is_held(
        self, world: World, limit: int, longer: int, one_in: int, think_us: int
    ) -> None:
        """By an argument alone, so no estimate tells: untimed ones would be charged as the short ones."""
        lengths = {"kernel_us": 8, "longer_at": 0.1, "longer": longer, "longer_each": one_in}
        host = {"queue": 64, "host_us": 5, "think_us": think_us}
        result = world(**lengths, **host, **H200, limit=limit, warmup=3, seconds=10)
        assert result["smooth"] == pytest.approx(limit / 10_000, abs=0.02)

    def test_what_varies_is_charged_by_what_random_samples_used(self, world: World) -> None:
        """Estimates fall fast and rise slowly, so they lie low; most batches are charged by them."""
        varying = {"kernel_us": 15, "vary": 0.95, "functions": 20, "host_us": 5, "think_us": 10}
        steps = {"step": 400, "ahead": 2, "pause_every": 20, "pause_us": 70, "mark_us": 2.4, "gap_us": 1.0}
        result = world(**varying, **steps, limit=3000, warmup=2, seconds=10)
        assert result["share"] == pytest.approx(0.30, abs=0.01)

    def test_a_pause_before_a_wait_is_no_work(self, world: World) -> None:
        result = world(limit=3000, kernel_us=44, queue=0, pause_every=20, pause_us=20_000, mark_us=2.4)
        assert result["claimed"] == pytest.approx(result["share"], rel=0.1)
        assert result["throttled"] == 0

    def test_one_whose_kernels_become_long_is_held(self, world: World) -> None:
        result = world(**self.INFERENCE, limit=3000, longer_at=0.5, longer=100)
        assert result["share"] == pytest.approx(0.30, abs=0.01)


class TestClocksThatPart:
    """The card's clock beside a host's that is slewed: 500 ppm by NTP, 80,000 where chrony catches up."""

    @pytest.mark.parametrize("load", [{"kernel_us": 44}, {"kernel_us": 1000}], ids=str)
    @pytest.mark.parametrize(
        ("drift_ppm", "error"),
        [(-80_000, 0.04), (-500, 0.005), (-100, 0.005), (100, 0.005), (500, 0.005), (80_000, 0.04)],
    )
    def test_faster_than_was_reckoned_with_cost_hardly_anything(
        self, world: World, load: dict[str, float], drift_ppm: int, error: float
    ) -> None:
        result = world(**load, **H200, limit=3000, drift_ppm=drift_ppm, warmup=2, seconds=20)
        assert result["smooth"] == pytest.approx(0.30, abs=error)
