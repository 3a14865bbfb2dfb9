"""The card harness: its arithmetic, its journal, short runs on the simulated card, one cut and resumed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.card import __main__ as harness
from benchmarks.card import company, curves, tables
from benchmarks.card.journal import Journal
from benchmarks.card.loads import ALL, BY_NAME, LAUNCH_BOUND
from benchmarks.card.memory import held
from benchmarks.card.overhead import MODES
from benchmarks.card.pairs import MIXES
from benchmarks.card.picture import Series, draw
from benchmarks.card.turns import beyond_us

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ("-m", "benchmarks.card")


def row(load: str, limit: int | None, nvml: float, **more: object) -> dict[str, object]:
    name = "bare" if limit is None else limit
    made = {"part": "alone", "row": f"{load}/{name}", "load": load, "limit": limit, "nvml": nvml, "own": nvml}
    made |= {"limiter": None, "cupti": None, "rate": nvml, "clock": 1980.0, "seconds": [nvml]}
    made |= {"seconds_by": "load", "date": "D", "card": "C", "driver": "V", "length": "1 s"}
    return made | more


def test_a_page_says_which_rows_nobody_has_measured_yet(tmp_path: Path) -> None:
    Journal(tmp_path).add(row("1ms", 30, 30.0))
    names = ["alone/1ms/10", "alone/1ms/30", "alone/1ms/bare", "pairs/1ms+1ms/60+30"]
    said = "**Not measured yet**, 3 of 4 rows: alone/1ms (10, bare); pairs/1ms+1ms (60+30)."
    assert said in tables.render(Journal(tmp_path), names)
    assert "Not measured" not in tables.render(Journal(tmp_path), ["alone/1ms/30"])


def test_a_counter_is_even_between_its_samples() -> None:
    curve = [(0.0, 0.0), (1.0, 0.5), (3.0, 1.5)]
    assert curves.value(curve, 2.0) == pytest.approx(1.0)
    assert curves.value(curve, 3.0) == 1.5
    assert curves.value(curve, 3.1) is None
    assert curves.each_second(curve, 0.0, 4.0) == pytest.approx([0.5, 0.5, 0.5])
    assert curves.rate(curve, 0.0, 3.0) == pytest.approx(0.5)
    assert curves.rate(curve, 0.5, 1.5) is None


def test_a_counter_that_is_seldom_told_says_so() -> None:
    assert curves.longest_gap([(0.1, 0), (0.2, 1), (1.4, 2)], 0.0, 1.5) == pytest.approx(1.2)
    assert curves.longest_gap([(0.1, 0)], 0.0, 1.5) == pytest.approx(1.4)


def test_the_worst_second_is_the_one_furthest_off_on_either_side() -> None:
    assert curves.worst([30.0, 26.0, 33.0], 30.0) == -4.0
    assert curves.worst([], 30.0) is None


def test_a_line_that_was_cut_short_is_measured_again(tmp_path: Path) -> None:
    Journal(tmp_path).add(row("1ms", 30, 30.0))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"part": "alone", "row": "1ms/70", "nv')
    journal = Journal(tmp_path)
    assert ("alone", "1ms/30") in journal
    assert ("alone", "1ms/70") not in journal
    journal.add(row("1ms", 70, 70.0))
    assert [one["row"] for one in Journal(tmp_path).of("alone")] == ["1ms/30", "1ms/70"]


def test_what_was_not_measured_is_a_dash(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(row("1ms", None, 100.0))
    dashes = " | ".join("\u2013" * 4)
    assert f"| no Weir | 100.0 | 100.0 | {dashes} | 100.0 | \u2013 | 1980 |" in tables.alone(journal)


def test_the_journal_of_the_docs_and_rows_of_today_make_one_page(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text((ROOT / "docs/benchmarks/h200.jsonl").read_text())
    journal = Journal(tmp_path)
    new = {"cupti": 8.0, "kernel_time": 9.0, "cupti_pace": 80.0, "seconds_by": "CUPTI"}
    for name, limit in (("inference/bare", None), ("inference/100", 100), ("inference/50", 50)):
        journal.add(row("inference", limit, 17.0, **new) | {"row": name})
    text = tables.render(Journal(tmp_path))
    assert text.count("\n### ") == len(
        {record["part"] for record in map(json.loads, journal_lines(tmp_path))}
    )
    assert "| 50 % | 17.0 | 17.0 | \u2013 | 9.0 | +0.0 (CUPTI) |" in text


def journal_lines(directory: Path) -> list[str]:
    return (directory / "rows.jsonl").read_text().splitlines()


def test_a_row_that_is_measured_again_replaces_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for nvml, limit in ((31.0, 30), (70.0, 70), (30.0, 30)):
        journal.add(row("1ms", limit, nvml))
    assert [json.loads(line)["nvml"] for line in journal_lines(tmp_path)] == [30.0, 70.0]
    assert [one["nvml"] for one in Journal(tmp_path).of("alone")] == [30.0, 70.0]


def test_tables_replace_what_stood_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nwhat stood here\n{tables.END}\nafter\n")
    journal = Journal(tmp_path / "rows")
    journal.add(row("1ms", 30, 30.0))
    tables.write(journal, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "what stood here" not in text
    assert "1 limited rows: error 0.00" in text


def test_a_picture_is_whole_and_says_who_is_who() -> None:
    picture = draw("a < b", [Series("one & all", 60, [60, 59.5]), Series("free", None, [30, 120])])
    tree = ET.fromstring(picture)
    texts = [one.text for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "one & all (60)", "free"} <= set(texts)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_every_mix_is_of_known_loads_and_fits_the_card() -> None:
    assert len(BY_NAME) == len(ALL) + len(LAUNCH_BOUND)
    for mix in MIXES:
        assert all(load in BY_NAME for load in mix.loads)
        assert all(len(shares) == len(mix.loads) and sum(shares) <= 100 for shares in mix.shares)


OUT = "CUDA_ERROR_OUT_OF_MEMORY"
HELD = {
    "refused within the limit": ("plain", OUT, 966, True),
    "refused too late": ("plain", OUT, 1030, False),
    "refused, unseen by NVML": ("imported", OUT, None, True),
    "refused for another reason": ("graph-capture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 518, False),
    "given, and nothing taken of the card": ("graph-upload", None, 594, True),
    "given, and taken": ("graph-upload", None, 2054, False),
    "given, nobody knows": ("plain", None, None, False),
    "given, and NVML cannot see it": ("managed", None, 518, False),
}


@pytest.mark.parametrize(("way", "refused", "used", "expected"), HELD.values(), ids=list(HELD))
def test_a_limit_held_where_the_card_says_so(
    way: str, refused: str | None, used: float | None, expected: bool
) -> None:
    assert held({"way": way, "refused": refused, "nvml_mib": used, "limit_mib": 1024}) is expected


def card(directory: Path, *more: str, program: Sequence[str] = HARNESS) -> subprocess.CompletedProcess[str]:
    short = ["--simulate", "h200", "--seconds", "1", "--settle", "0.2", "--limits", "30"]
    environment = {**os.environ, "SIMGPU_STATE": str(directory / "machine"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *program, str(directory / "rows"), *short, *more]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def changed(what: str) -> tuple[str, str]:
    """The harness with a constant of its parts changed."""
    names = "from benchmarks.card import company, loads, overhead, pairs, phases, __main__ as harness"
    return ("-c", f"import sys; {names}; {what}; sys.exit(harness.main())")


def test_a_run_that_spent_its_budget_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms", "--budget", "1")
    assert (first.returncode, first.stderr) == (3, "")
    assert "budget spent" in first.stdout
    second = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms")
    assert (second.returncode, second.stderr) == (0, "")
    rows = {one["limit"]: one for one in map(json.loads, (tmp_path / "rows/rows.jsonl").open())}
    assert set(rows) == {None, 30, 100}
    assert rows[None]["own"] > 90
    assert 10 < rows[30]["own"] < 60 < rows[100]["own"]
    assert "(simulated)" in (tmp_path / "rows/benchmarks.md").read_text()
    again = card(tmp_path, "--parts", "alone", "--rows", "alone/1ms")
    assert (again.returncode, again.stdout) == (0, "")


def test_rows_of_an_older_commit_or_another_length_are_measured_again_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "rows")
    journal.add(row("1ms", 30, 77.0, commit="new", length="8 s"))
    journal.add(row("44us", 30, 77.0, commit="old", length="1 s"))
    journal.add(row("wait", 30, 77.0, commit="new", length="1 s"))
    wanted = ("--parts", "alone", "--rows", "1ms/30", "--rows", "44us/30", "--rows", "wait/30")
    for again in ((), ("--again", "--commit", "new"), ("--again", "--commit", "new")):
        done = card(tmp_path, *wanted, *again)
        assert (done.returncode, done.stderr) == (0, "")
    found = {one["load"]: one for one in map(json.loads, journal_lines(tmp_path / "rows"))}
    assert {load: one["nvml"] == 77.0 for load, one in found.items()} == {
        "1ms": False,
        "44us": False,
        "wait": True,
    }
    assert done.stdout == ""
    assert "--again: alone: not allowed; together with --commit" in card(tmp_path, "--again").stderr


def test_four_slices_are_measured_side_by_side(tmp_path: Path) -> None:
    done = card(tmp_path, "--parts", "pairs", "--rows", "1ms+1ms+1ms+1ms/25")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert all(0 < given < 60 for given in found["given"])
    assert (tmp_path / "rows/images/1ms-1ms-1ms-1ms-25-25-25-25.svg").exists()


def test_the_pace_kept_beside_a_neighbour_is_against_the_times_alone_around_it() -> None:
    """A host that becomes slower and slower, and a program that is half as fast beside others."""
    curve, done = [], 0.0
    for tick in range(900):
        together = tick // 100 % 2 == 0
        done += (0.01 if together else 0.02) * 0.999**tick
        curve.append((tick / 100, done))
    times = [((a, a + 1), (a + 1, a + 2), (a + 2, a + 3)) for a in (0, 2, 4)]
    assert company.kept_percent(curve, times) == pytest.approx(50, rel=0.02)
    assert company.kept_percent(curve, [((0, 1), (20, 21), (2, 3))]) is None


def running_in(directory: Path) -> list[str]:
    """The processes whose slices are there."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"WEIR_SLICE_DIR={directory}".encode() in environment.read_bytes():
                found.append(environment.parent.name)
    return found


def test_who_cannot_fill_his_share_is_measured_with_his_neighbour_stopped(tmp_path: Path) -> None:
    light = "replace(loads.BY_NAME['wait'], fills=False, arguments=('--kernel-us', '2', '--idle-ms', '1'))"
    mix = "pairs.MIXES = (pairs.Mix(('wait', 'wait'), ((60, 30),)),)"
    program = changed(
        f"from dataclasses import replace; loads.BY_NAME['wait'] = {light}; {mix}; company.ROUNDS = 1"
    )
    done = card(tmp_path, "--parts", "pairs", "--rows", "60+30", program=program)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert all(50 < kept < 200 for kept in found["kept"])  # it sleeps most of the time
    assert running_in(tmp_path) == []
    page = (tmp_path / "rows/benchmarks.md").read_text()
    assert " + ".join(f"{kept:.1f}" for kept in found["kept"]) in page


def test_what_nvml_shows_beyond_kernels_is_told_for_each(tmp_path: Path) -> None:
    done = card(tmp_path, "--parts", "turns", "--rows", "turns/long+long")
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert beyond_us(91.0, 25.0, 110_000) == pytest.approx(6.0)
    assert beyond_us(0.0, 0.0, 0) is None
    assert found["beyond_us"] == pytest.approx(
        beyond_us(found["nvml"], sum(found["own"]), sum(found["rates"]))
    )
    assert "| 100 µs, host 200 µs + 100 µs, host 200 µs |" in (tmp_path / "rows/benchmarks.md").read_text()


def test_each_part_writes_its_rows_and_its_table(tmp_path: Path) -> None:
    for part, wanted in (("memory", "plain/1GiB"), ("latency", "closed loop/30 %, alone")):
        done = card(tmp_path, "--parts", part, "--rows", wanted)
        assert (done.returncode, done.stderr) == (0, "")
    plain, step = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert (plain["refused"], plain["taken_mib"]) == ("CUDA_ERROR_OUT_OF_MEMORY", 448)
    assert plain["nvml_mib"] <= 1024
    assert 1.6 <= step["p50_ms"] <= step["p99_ms"]
    page = (tmp_path / "rows/benchmarks.md").read_text()
    assert "| plain | yes |" in page
    assert "| in a closed loop | 30 %, alone |" in page


def test_a_phase_begins_when_its_limit_is_in_force(tmp_path: Path) -> None:
    binding = changed("overhead.PHASES = (('wait', 30),)")
    done = card(tmp_path, "--parts", "overhead", "--rows", "phases/wait/30", program=binding)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    assert len(found["blocks"]) == 2
    assert found["added_percent"] == pytest.approx(100 * (0.9 / 0.3 - 1), rel=0.35)  # waiting, it uses 90 %


def test_loads_bound_by_their_launches_are_measured_in_turns(tmp_path: Path) -> None:
    done = card(
        tmp_path,
        "--parts",
        "overhead",
        "--rows",
        "overhead/launch-bound/wait",
        program=changed("overhead.TURNS = 2"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = map(json.loads, (tmp_path / "rows/rows.jsonl").open())
    ((_, modes),) = found["seen"].items()
    assert {mode: len(values) for mode, values in modes.items()} == dict.fromkeys(MODES, 2)
    assert min(map(min, modes.values())) >= 12


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--parts", "speed", "of overhead,"),
        *(("--seconds", value, "a number from 0.1 to") for value in ("0", "-1", "nan", "inf", "x", "1e300")),
        ("--settle", "nan", "a number from 0 to"),
        ("--budget", "0", "a number from 1 to"),
        *(("--limits", value, "percents from 1 to 100") for value in ("0", "101", "a", "30,", "")),
        ("--docs", "/nowhere/page.md", "a page in a directory that exists"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(
    option: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["card", "rows", f"{option}={value}"])
    with pytest.raises(SystemExit, match="2"):
        harness.options()
    (said,) = capsys.readouterr().err.splitlines()
    assert option in said
    assert f"{value}: not allowed; {allowed}" in said


def test_rows_that_no_part_has_are_refused_before_one_is_measured(tmp_path: Path) -> None:
    refused = card(tmp_path, "--parts", "latency,alone", "--rows", "alone/1ms", "--rows", "alone/1sm")
    assert (refused.returncode, refused.stdout) == (2, "")
    (said,) = refused.stderr.splitlines()
    assert said.startswith("--rows: alone/1sm: not allowed; ")
    assert "alone/1ms/ " in said


def test_a_directory_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("")
    refused = card(tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (5, 1)
    assert refused.stderr.startswith(f"DIR: {tmp_path / 'rows'}: ")


def test_a_machine_that_nobody_knows_is_refused_in_one_line(tmp_path: Path) -> None:
    refused = card(tmp_path, "--simulate", "nosuch")
    assert refused.returncode == 2
    assert refused.stderr.startswith("--simulate: nosuch: not allowed; ")
    assert refused.stderr.count("\n") == 1
