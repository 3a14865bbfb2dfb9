"""Pacing as a program meets it, in virtual time: shares, slots, what is counted, and what is left alone.

`programs/pacing_world.c` runs the limiter's own code against a GPU whose truth it knows; the limiter sees
only events. Shares are of GPU time; `claimed` is what the limiter measured, `share` what really was.
"""

from __future__ import annotations

import pytest

from .world import H200, World, Worlds

SLOT_60 = {"limit": 6000, "frame_us": 20_000, "offset_us": 0, "length_us": 12_000}
SLOT_30 = {"limit": 3000, "frame_us": 20_000, "offset_us": 12_000, "length_us": 6000}


class TestShare:
    @pytest.mark.parametrize("limit", [100, 1000, 3000, 5000, 7000, 9000])
    def test_a_full_queue_of_millisecond_kernels_gets_its_limit(self, world: World, limit: int) -> None:
        assert world(limit=limit, warmup=1, seconds=10)["share"] == pytest.approx(limit / 10_000, abs=0.003)

    @pytest.mark.parametrize("kernel_us", [5, 44, 200, 1000, 5000, 20_000, 100_000])
    @pytest.mark.parametrize("limit", [1000, 3000, 9000])
    def test_so_do_kernels_of_any_length(self, world: World, limit: int, kernel_us: int) -> None:
        result = world(limit=limit, kernel_us=kernel_us, warmup=5, seconds=20, **H200)
        assert result["smooth"] == pytest.approx(limit / 10_000, abs=0.01)

    @pytest.mark.parametrize(
        "mix",
        [
            {"streams": 4},
            {"streams": 4, "kernel_us": 44},
            {"kernel_us": 100, "second_us": 2000},
            {"kernel_us": 100, "functions": 50},
            {"graph": 1, "kernel_us": 1600},
            {"fail": 3},
            {"step": 30, "kernel_us": 20, "host_us": 5, "step_idle_us": 100},
        ],
        ids=str,
    )
    def test_so_do_streams_mixtures_graphs_failures_and_steps(
        self, world: World, mix: dict[str, float]
    ) -> None:
        assert world(limit=3000, warmup=1, **mix)["share"] == pytest.approx(0.30, abs=0.015)

    def test_streams_whose_lanes_are_the_same_find_others(self, world: World) -> None:
        """With none, each launch was charged by itself, though the kernels ran side by side."""
        result = world(limit=9000, streams=15, crowded=1, functions=100, warmup=1)
        assert result["share"] == pytest.approx(0.90, abs=0.015)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)

    @pytest.mark.parametrize("late_us", [90, 5000, 20_000, 80_000])
    def test_late_wake_ups_are_made_up_for(self, world: World, late_us: int) -> None:
        assert world(limit=3000, late_us=late_us, warmup=1)["share"] == pytest.approx(0.30, abs=0.005)

    @pytest.mark.parametrize(("kernel_us", "least"), [(44, 0.28), (200, 0.29), (5000, 0.295)])
    def test_a_program_that_waits_for_each_launch_is_not_charged_its_idle_time(
        self, world: World, kernel_us: int, least: float
    ) -> None:
        result = world(limit=3000, kernel_us=kernel_us, queue=0, warmup=1)
        assert least <= result["share"] <= 0.301

    def test_a_program_below_its_limit_is_not_held_back(self, world: World) -> None:
        free = world(kernel_us=20, step=1, step_idle_us=70)
        capped = world(kernel_us=20, step=1, step_idle_us=70, limit=5000)
        assert capped["throttled"] == 0
        assert capped["host_us"] == pytest.approx(free["host_us"], rel=0.01)

    def test_unknown_long_kernels_do_not_fill_the_queue_before_they_are_known(self, world: World) -> None:
        result = world(limit=1000, kernel_us=20_000, seconds=4)
        assert result["share"] == pytest.approx(0.10, abs=0.02)
        assert result["longest_call_ms"] < 1000

    @pytest.mark.parametrize(("limit", "most"), [(1000, 0.13), (3000, 0.34)])
    @pytest.mark.parametrize("kernel_us", [300_000, 1_000_000])
    def test_the_first_of_very_long_kernels_is_not_free(
        self, world: World, kernel_us: int, limit: int, most: float
    ) -> None:
        """While it runs, more are let through ever more seldom; what passed is repaid."""
        result = world(limit=limit, kernel_us=kernel_us, seconds=30)
        assert limit / 10_000 <= result["share"] < most

    @pytest.mark.parametrize("streams", [1, 8])
    @pytest.mark.parametrize("record_us", [10, 20])
    def test_first_kernels_are_not_free_while_another_thread_has_the_meter(
        self, worlds: Worlds, record_us: int, streams: int
    ) -> None:
        """Which it has most of the time: each of its launches is measured, and events take it long."""
        measured = {"kernel_us": 5, "queue": 0}
        first = {"thread": 0, "kernel_us": 20_000, "functions": 100, "queue": 0, "streams": streams}
        result = worlds(measured, first, limit=3000, record_us=record_us, seconds=0.6)[0]
        assert 0.2 < result["share"] < 0.31

    @pytest.mark.parametrize("queue", [0, 1000])
    def test_first_kernels_are_not_free_where_64_other_streams_were_used(
        self, worlds: Worlds, queue: int
    ) -> None:
        """They rest, but their lanes are theirs: nothing was charged, so nothing was held back."""
        used = {"kernel_us": 5, "streams": 64, "think_us": 60, "quiet_at": 0.45, "quiet_for": 5.5}
        first = {"thread": 0, "kernel_us": 20_000, "functions": 100_000, "streams": 64, "start_at": 0.5}
        windows = worlds(used, first | {"queue": queue}, limit=3000, seconds=6)[0]["windows"]
        assert windows[1:] == [pytest.approx(0.30, abs=0.01)] * 5

    @pytest.mark.parametrize("streams", [64, 128])
    def test_first_kernels_are_not_free_while_there_is_no_room_to_measure_them(
        self, world: World, streams: int
    ) -> None:
        """For want of lanes, or of batches, 65,000 and 130,000 kernels of a second were launched."""
        unknown = {"kernel_us": 1_000_000, "functions": 100_000, "streams": streams, "queue": 1000}
        result = world(**unknown, limit=3000, seconds=20)
        assert result["launches"] < 400
        assert result["share"] < 0.4

    def test_a_thread_that_ended_with_the_meter_is_waited_for_once(self, worlds: Worlds) -> None:
        """Its slice goes on, charged by what is known."""
        ends = {"thread": 0, "kernel_us": 5, "queue": 0, "ends_at": 0.1}
        goes_on = {"kernel_us": 50, "functions": 100, "queue": 0, "start_at": 0.2}
        (result,) = worlds(goes_on, ends, seconds=1)
        assert 0 < result["longest_call_ms"] < 25
        assert result["share"] > 0.7

    def test_a_quiet_time_saves_up_a_tenth_of_a_second(self, world: World) -> None:
        """Of budget: 30 ms of a GPU at 30 %, once, and what a second holds beside."""
        windows = world(limit=3000, seconds=20, quiet_at=4, quiet_for=10)["windows"]
        assert sum(windows[4:14]) < 0.01
        assert windows[14] == pytest.approx(0.33, abs=0.005)
        assert windows[15] == pytest.approx(0.30, abs=0.005)

    def test_loading_code_is_not_charged(self, world: World) -> None:
        result = world(limit=5000, load_us=20_000, functions=20, kernel_us=500)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)


class TestSlot:
    @pytest.mark.parametrize(("slot", "share"), [(SLOT_60, 0.6), (SLOT_30, 0.3)], ids=["60", "30"])
    @pytest.mark.parametrize("kernel_us", [5, 44, 300, 1000])
    def test_short_kernels_fill_it_and_stay_inside(
        self, world: World, slot: dict[str, float], share: float, kernel_us: int
    ) -> None:
        result = world(**slot, kernel_us=kernel_us, warmup=1)
        assert result["share"] == pytest.approx(share, abs=0.01)
        assert result["outside"] < 0.01

    @pytest.mark.parametrize("kernel_us", [2500, 5000, 9000, 15_000, 50_000])
    def test_kernels_that_do_not_fit_still_get_their_share_over_time(
        self, world: World, kernel_us: int
    ) -> None:
        result = world(**SLOT_60, kernel_us=kernel_us, warmup=1, seconds=10)
        assert result["share"] == pytest.approx(0.6, abs=0.015)

    def test_a_neighbours_turns_at_its_edges_are_not_charged(self, worlds: Worlds) -> None:
        """Whole kernels of 1.15 ms do not fill them, so now and then one runs over and waits for a turn."""
        pair = worlds(SLOT_60, SLOT_30, kernel_us=1150, warmup=2, seconds=20)
        assert [one["share"] for one in pair] == [pytest.approx(0.6, abs=0.01), pytest.approx(0.3, abs=0.01)]

    @pytest.mark.parametrize("longer", [0.3, 3])
    def test_kernels_that_change_are_seen_beside_a_neighbour(self, worlds: Worlds, longer: float) -> None:
        pair = worlds(SLOT_60, SLOT_30, longer_at=1, longer=longer, warmup=3, seconds=10)
        assert [one["share"] for one in pair] == [pytest.approx(0.6, abs=0.02), pytest.approx(0.3, abs=0.02)]
        assert all(one["claimed"] == pytest.approx(one["share"], abs=0.01) for one in pair)

    def test_a_program_that_waits_for_each_launch_keeps_to_it_too(self, world: World) -> None:
        result = world(**SLOT_30, queue=0, warmup=1)
        assert result["share"] == pytest.approx(0.3, abs=0.015)
        assert result["outside"] < 0.01


class TestMeasuring:
    def test_gpu_time_is_measured_without_a_limit(self, world: World) -> None:
        result = world(kernel_us=300, queue=0, step=1, step_idle_us=200)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)
        assert (result["throttled"], result["periods"]) == (0, 0)

    @pytest.mark.parametrize("kernel_us", [20, 60, 300])
    def test_idle_gaps_of_a_slow_host_are_left_out(self, world: World, kernel_us: int) -> None:
        result = world(kernel_us=kernel_us, step=1, step_idle_us=kernel_us + 70, **H200)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.03)

    def test_kernels_of_a_slow_host_that_become_longer_are_noticed(self, world: World) -> None:
        result = world(kernel_us=20, step=1, step_idle_us=120, longer_at=1, longer=3, warmup=2, **H200)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.03)

    def test_streams_that_overlap_are_counted_once(self, world: World) -> None:
        result = world(streams=4, kernel_us=44, queue=4, warmup=1)
        assert result["share"] > 0.99
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)

    @pytest.mark.parametrize("settings", [{}, {"streams": 4, "kernel_us": 44}, {"fail": 3}], ids=str)
    def test_every_launch_is_counted(self, world: World, settings: dict[str, float]) -> None:
        result = world(limit=5000, seconds=2, **settings)
        assert result["counted"] == result["launches"]

    def test_the_longest_kernel_is_seen(self, world: World) -> None:
        result = world(limit=3000, kernel_us=100, second_us=7000, warmup=1)
        assert result["longest_kernel_us"] == pytest.approx(7000, rel=0.01)

    def test_and_forgotten_some_seconds_after_the_last_like_it(self, world: World) -> None:
        result = world(limit=5000, kernel_us=50_000, queue=4, longer_at=2, longer=0.02, warmup=2, seconds=15)
        assert 1000 < result["longest_kernel_us"] < 2000

    def test_one_that_became_a_little_shorter_is_told_as_it_is_now(self, world: World) -> None:
        result = world(limit=5000, kernel_us=5000, queue=4, longer_at=2, longer=0.9, warmup=2, seconds=5)
        assert result["longest_kernel_us"] == pytest.approx(4500, rel=0.005)

    def test_what_a_slots_end_lengthened_once_is_not_taken_for_it(self, worlds: Worlds) -> None:
        """A slot of ten kernels and a half: the last one runs beside the neighbour's first."""
        frame = {"limit": 2500, "frame_us": 43_000, "length_us": 10_650, "kernel_us": 1000}
        four = [{**frame, "offset_us": index * 10_750} for index in range(4)]
        each = worlds(*four, seconds=10, warmup=2, **H200)
        assert all(1000 < one["longest_kernel_us"] < 1020 for one in each)

    def test_but_not_while_it_comes_back(self, world: World) -> None:
        result = world(limit=5000, kernel_us=20_000, second_us=40, queue=4, warmup=2, seconds=15)
        assert result["longest_kernel_us"] == pytest.approx(20_000, rel=0.02)

    def test_periods_and_throttled_time_tell_that_it_was_held_back(self, world: World) -> None:
        result = world(limit=3000)
        assert 0 < result["throttled"] <= result["periods"]
        assert result["throttled_ms"] > 1000

    def test_events_are_used_again(self, world: World) -> None:
        assert world(limit=9000, streams=4, seconds=20)["events"] < 300


class TestLeftAlone:
    def test_nothing_is_paced_or_counted_while_the_stream_captures(self, world: World) -> None:
        result = world(limit=100, capture_for=10, seconds=1)
        assert (result["counted"], result["throttled"], result["events"]) == (0, 0, 0)

    @pytest.mark.parametrize("at", [0.5001, 0.50035, 0.50072])
    def test_a_capture_that_begins_in_the_middle_of_a_batch_gets_no_event_into_it(
        self, world: World, at: float
    ) -> None:
        """The world aborts when an event is recorded into its capturing stream."""
        assert world(kernel_us=44, capture_at=at, capture_for=0.2, seconds=1)["hook_errors"] == 0

    @pytest.mark.parametrize("rule", [{"limit": 3000}, SLOT_30], ids=["quota", "slot"])
    @pytest.mark.parametrize("processes", [1, 2])
    def test_what_somebody_wrote_into_the_stats_page_holds_launches_up_for_a_minute_at_most(
        self, worlds: Worlds, rule: dict[str, float], processes: int
    ) -> None:
        noisy: list[dict[str, float]] = [{"slice": 0, "noise_at": 2, "noise_for": 3}, {"slice": 0}]
        results = worlds(*noisy[:processes], **rule, warmup=1, seconds=130)
        assert 10_000 < max(one["longest_call_ms"] for one in results) < 64_000
        assert sum(one["windows"][-1] for one in results) == pytest.approx(0.3, abs=0.02)

    def test_a_context_whose_events_fail_is_not_held_back_by_guesses(self, world: World) -> None:
        result = world(limit=1000, broken_for=100)
        assert (result["hook_errors"], result["launch_errors"]) == (1, 1)
        assert result["share"] > 0.99
        assert result["counted"] == result["launches"]

    @pytest.mark.parametrize("kernel_us", [44, 1000])
    def test_when_events_begin_to_fail_its_launches_are_charged_as_last_measured(
        self, world: World, kernel_us: int
    ) -> None:
        result = world(limit=3000, kernel_us=kernel_us, broken_at=1, broken_for=100)
        assert (result["hook_errors"], result["launch_errors"]) == (1, 1)
        assert result["share"] == pytest.approx(0.3, abs=0.01)
        assert result["claimed"] == pytest.approx(result["share"], abs=0.01)
        assert result["counted"] == result["launches"]
