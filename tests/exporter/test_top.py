"""`weir top`: the table and the JSON, over snapshots and over a real root without an exporter or a driver."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console

from exporter.report import report
from exporter.snapshot import Counters, GpusReading, Health, Leased
from exporter.top import top
from exporter.top_view import bar, view
from tests.exporter.builders import MIB, claims, container, gpus, snapshot, states
from weir.nvml import GpuProcess


def shown(shot, simulate=None, width=140):
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(view(shot, simulate, width))
    return captured.get()


def line(text, start):
    (found,) = [one for one in text.splitlines() if one.startswith(start)]
    return found


def test_a_slice_is_a_line_with_asked_given_and_memory():
    row = line(shown(snapshot(container("alice"))), "alice")
    for part in ("60 %", "62 %", "600 MiB", "4 GiB", "16 %"):
        assert part in row, part


def test_a_share_that_mps_holds_is_said_to_be_of_multiprocessors():
    row = line(shown(snapshot(container("alice", backend="mps"))), "alice")
    assert "60 % SMs" in row


@pytest.mark.parametrize(
    ("policy", "asked", "said"),
    [("fixed", 0.6, "60 %"), ("burst", 0.6, "60 % burst"), ("burst", None, "no cap")],
)
def test_a_share_that_may_be_exceeded_is_said_to_be(policy, asked, said):
    row = line(shown(snapshot(container("alice", claims(core_requested=asked), policy=policy))), "alice")
    assert row.split("62 %")[0].removeprefix("alice").strip() == said


@pytest.mark.parametrize(("lives", "mark"), [(True, False), (None, False), (False, True)])
def test_a_slice_whose_daemon_is_gone_is_marked(lives, mark):
    row = line(shown(snapshot(container("alice", backend="mps", daemon_lives=lives))), "alice")
    assert ("60 % SMs, no daemon" in row) == mark


@pytest.mark.parametrize(
    ("lives", "said"), [(True, "60 % burst"), (None, "60 % burst"), (False, ", no agent")]
)
def test_a_slice_that_no_agent_looks_after_is_marked(lives, said):
    text = shown(snapshot(container("alice", policy="burst", agent_lives=lives)), width=80)
    assert line(text, "alice").split("62 %")[0].strip().endswith(said)
    assert report(snapshot(container("alice", agent_lives=lives)), 0.0)["slices"][0]["agent_lives"] is lives


def test_a_card_has_a_line_with_utilisation_and_memory():
    card = line(shown(snapshot(container("alice"))), "GPU 0")
    assert "NVIDIA H200" in card
    assert "utilisation 90 %" in card
    assert "simulated" not in card
    assert "simulated" in line(shown(snapshot(container("alice")), "h200"), "GPU 0")


def test_refusals_are_counted_whatever_their_reason():
    refused = claims(counters=Counters(denied_limit=2, denied_device=3, denied_policy=4))
    assert " 9 " in line(shown(snapshot(container("alice", refused))), "alice")


def test_what_nobody_can_say_is_a_dash_and_no_cap_is_said():
    row = line(shown(snapshot(container("alice", claims(core_requested=None, memory_limit=None)))), "alice")
    assert "no cap" in row
    assert " - " in row


def test_a_name_is_never_taken_for_markup():
    assert "[bold]x" in shown(snapshot(container("[bold]x")))


def test_pods_are_named_by_namespace_pod_and_container():
    assert line(shown(snapshot(container("main", namespace="ml", pod="web-0"))), "ml/web-0/main")


def test_slices_on_a_card_that_does_not_answer_are_shown_all_the_same():
    text = shown(snapshot(container("alice"), gpus=GpusReading()))
    assert "cards that do not answer" in text
    assert line(text, "alice")


def test_a_failing_source_is_said_in_its_own_words():
    broken = (Health("slices", True), Health("nvml", False, error="driver gone"))
    assert "nvml: driver gone" in shown(snapshot(health=broken))


@pytest.mark.parametrize(
    ("simulate", "command"), [(None, "weir run --cores"), ("h200", "weir run --simulate h200 --cores")]
)
def test_without_slices_it_says_once_how_to_make_one_here(simulate, command):
    text = shown(snapshot(), simulate)
    assert command in text
    assert text.lower().count("no slices") == 1


def test_without_a_card_it_does_not_say_how_to_make_one():
    text = shown(snapshot(gpus=GpusReading(), health=(Health("nvml", False, error="no driver"),)))
    assert text.split("\n")[:2] == ["nvml: no driver", "No slices."]


def test_slices_that_cannot_be_read_are_not_said_to_be_none():
    assert "No slices" not in shown(snapshot(health=(Health("slices", False, error="/x: denied"),)))


def test_a_long_name_is_cut_before_any_number_is():
    text = shown(snapshot(container("x" * 63)), width=80)
    for part in ("xxx…", "60 %", "62 %", "600 MiB", "4 GiB", "HELD BACK", "PROCS"):
        assert part in text, part


WIDE = {
    "plain": container("alice"),
    "much": container("alice", claims(memory_used=143_155 * MIB, memory_limit=143_155 * MIB)),
    "no daemon": container("alice", backend="mps", daemon_lives=False),
    "no agent": container("alice", policy="burst", agent_lives=False),
}


@pytest.mark.parametrize("width", [30, 40, 60, 70, 79, 80, 99, 100])
@pytest.mark.parametrize("slice_", WIDE.values(), ids=WIDE)
def test_however_narrow_it_is_every_slice_has_its_name_and_no_number_is_cut(slice_, width):
    text = shown(snapshot(slice_, replace(slice_, container="x" * 63)), width=width)
    title, alice, long = text.splitlines()[-4:-1]
    assert (title[:5], alice[:5], long[:3]) == ("SLICE", "alice", "xxx")
    assert "…" not in title + alice
    full = shown(snapshot(slice_)).splitlines()[-2]
    assert [word for word in alice.split() if word not in full.split()] == []


def test_what_matters_least_goes_first_where_it_is_narrow():
    some, fewer = (line(shown(snapshot(container("a" * 16)), width=cells), "SLICE") for cells in (70, 60))
    assert some.split() == ["SLICE", "ASKED", "GIVEN", "MEMORY", "LIMIT", "REFUSED", "PROCS"]
    assert fewer.split() == ["SLICE", "ASKED", "GIVEN", "MEMORY", "LIMIT"]


@pytest.mark.parametrize(
    ("priority", "frame", "said"),
    [(0, None, "priority 0"), (1, 0.01, "frame 10 ms"), (0, 0.2, "priority 0, frame 200 ms"), (1, None, "")],
)
def test_what_was_asked_of_a_slice_s_turns_is_said_under_the_slices_of_its_card(priority, frame, said):
    shot = snapshot(container("alice", priority=priority, frame=frame), container("bob"))
    told = [one for one in shown(shot, width=80).splitlines() if one.startswith("alice: ")]
    assert told == ([f"alice: {said}"] if said else [])
    alice = report(shot, 0.0)["slices"][0]
    assert (alice["priority"], alice["frame_seconds"]) == (priority, frame)


@pytest.mark.parametrize(
    ("lease", "said"),
    [
        (Leased(1_700_000_301.0, None, 0.1), "alice: leased 10 % for 299 s more"),
        (Leased(1_700_000_012.5, 2048 * MIB, None), "alice: leased 2 GiB for 10 s more"),
        (Leased(1_700_000_012.5, 2048 * MIB, 0.1), "alice: leased 10 %, 2 GiB for 10 s more"),
    ],
    ids=["cores", "memory", "both"],
)
def test_a_lease_is_said_under_the_slices_of_its_card(lease, said):
    text = shown(snapshot(container("alice", lease=lease), container("bob")))
    assert text.splitlines()[-2] == said
    assert text.count("leased") == 1


@pytest.mark.parametrize(
    ("changes", "cores", "said"),
    [
        ({}, 0.6, ""),
        ({}, 0.59, "leased 59 %"),
        ({"policy": "burst"}, 0.7, "leased 70 %"),
        ({"backend": "mps"}, 0.7, "leased 70 %"),
    ],
    ids=["no lower than asked", "lower", "a burst slice's", "of time, not of multiprocessors"],
)
def test_a_lease_that_lowers_nothing_is_not_said(changes, cores, said):
    lease = Leased(1_700_000_012.0, 4096 * MIB, cores)
    text = shown(snapshot(container("alice", lease=lease, **changes)))
    assert [one.removeprefix("alice: ") for one in text.splitlines() if "leased" in one] == (
        [f"{said} for 10 s more"] if said else []
    )


def test_help_explains_the_columns_that_are_no_plain_words():
    text = CliRunner().invoke(top, ["--help"]).output
    assert "HELD BACK is the part" in text


@pytest.mark.parametrize(
    ("used", "limit", "cells"),
    [(0.0, None, 0), (0.5, None, 10), (1.0, None, 20), (7.0, None, 20), (None, 0.5, 0), (0.25, 0.5, 5)],
)
def test_a_bar_is_as_long_as_the_share(used, limit, cells):
    text = bar(used, limit).plain
    assert len(text) == 20
    assert text.count("━") == cells
    assert text.count("┃") == (limit is not None)


def run(tmp_path, *options):
    return CliRunner().invoke(top, ["--root", str(tmp_path), "--interval", "0.1", *options])


def test_json_is_one_snapshot(tmp_path):
    result = run(tmp_path, "--json")
    data = json.loads(result.output)
    assert result.exit_code == 0
    assert data["slices"] == []
    assert set(data["regions"]) == {"live", "stale", "orphan", "corrupt", "version_mismatch"}


def test_without_a_terminal_it_prints_once_and_ends(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "No slices" in result.output
    assert "\x1b" not in result.output


def test_memory_that_the_ledger_does_not_know_is_shown_by_nvmls_word():
    (known,) = states(container("alice"))
    text = shown(snapshot(container("alice"), slices=(replace(known, driver_used=5000 * MIB),)))
    assert "4.9 GiB" in line(text, "alice")


def test_processes_that_nothing_holds_are_named_beside_those_that_are():
    (known,) = states(container("alice"))
    stray = shown(snapshot(container("alice"), slices=(replace(known, strays=(7, 8)),)))
    assert "1 +2 not held" in line(stray, "alice")


def test_programs_of_no_slice_are_counted_on_their_cards_line():
    reading = gpus(GpuProcess(9, 70 * MIB))
    (card,) = reading.gpus
    text = shown(snapshot(container("alice"), gpus=replace(reading, gpus=(replace(card, outside=(9,)),))))
    assert "outside slices 1 (70 MiB)" in text


def test_a_slice_over_its_limit_shows_what_it_really_holds():
    over = replace(claims(), memory_used=5000 * MIB)
    assert "4.9 GiB" in line(shown(snapshot(container("alice", over))), "alice")


def test_a_narrow_screen_leaves_out_bars_and_cuts_no_number():
    text = shown(snapshot(container("alice")), width=80)
    assert "━" not in text
    for part in ("60 %", "62 %", "600 MiB", "4 GiB", "HELD BACK", "PROCS"):
        assert part in text, part


def test_a_slice_that_is_lent_more_still_shows_what_it_asked():
    assert "60 %" in line(shown(snapshot(container("alice", claims(core_limit=None)))), "alice")
