"""The exposition text: golden page, escaping, guards, and what its readers (promtool, client library) say."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.accounting import Accounting
from exporter.audit import audited
from exporter.families import CONTAINER_FAMILIES, SLICE_FAMILIES
from exporter.node_families import COLLECTOR_FAMILIES, GPU_FAMILIES, NODE_FAMILIES, SELF_FAMILIES
from exporter.render import Renderer, number
from exporter.snapshot import GpusReading
from limiter.belonging import Origin
from tests.exporter.builders import MIB, claims, container, gpus, snapshot
from weir.nvml import GpuProcess

GOLDEN = Path(__file__).parent / "golden.prom"
ALL = [
    *SLICE_FAMILIES,
    *CONTAINER_FAMILIES,
    *GPU_FAMILIES,
    *NODE_FAMILIES,
    *COLLECTOR_FAMILIES,
    *SELF_FAMILIES,
]


def text(shot, **settings):
    renderer = Renderer("0.1.0", **settings)
    return renderer.render(shot).text.decode()


def parsed(page):
    return {family.name: family for family in text_string_to_metric_families(page)}


def samples(page, name):
    return [
        sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    ]


def full_page():
    pod = {"namespace": "ml", "pod": "web-0", "pod_uid": "u-1", "backend": "mps", "daemon_lives": False}
    two = container("trainer", claims(index=0), claims(index=1), **pod)
    shot = snapshot(container("alice", path="/slices/alice", supervisor=4700), two)
    on_card = [GpuProcess(4711, 700 * MIB), GpuProcess(4712, 90 * MIB), GpuProcess(9, 5 * MIB)]
    origins = {9: Origin(9), 4711: Origin(4711), 4712: Origin(4712, ancestors=frozenset({4700}))}
    slices, cards = audited(shot.slices, replace(gpus(*on_card), origins=origins))
    return text(replace(shot, slices=slices, gpus=cards))


def test_page_is_the_golden_one():
    page = re.sub(r'python_version="[^"]*"', 'python_version="3.x"', full_page())
    if os.environ.get("WEIR_UPDATE_GOLDEN"):
        GOLDEN.write_text(page)
    assert page == GOLDEN.read_text()


def test_the_client_library_reads_every_family_back():
    read = {(family.name, family.type, family.documentation) for family in parsed(full_page()).values()}
    assert read == {(family.name.removesuffix("_total"), family.kind, family.help) for family in ALL}


def test_promtool_finds_nothing_to_say():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed; the lint rules below are checked in any case")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=full_page(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_family_keeps_the_naming_rules(family):
    assert re.fullmatch(r"weir_[a-z0-9]+(_[a-z0-9]+)*", family.name)
    assert family.help
    assert "\n" not in family.help
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert not re.search(r"_(count|sum|bucket|milliseconds|percent|mb|mib)(_|$)", family.name)
    assert not {"type", "zone", "cluster", "service", "env", "result"} & set(family.labels)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*|UUID", label) for label in family.labels)


def test_every_family_has_one_definition():
    names = [family.name for family in ALL]
    assert len(names) == len(set(names))


def test_no_series_is_written_twice():
    lines = [line.rsplit(" ", 1)[0] for line in full_page().splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


def test_series_count_is_what_is_on_the_page():
    page = full_page()
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    (series,) = samples(page, "weir_exporter_series")
    assert series.value == len(lines)


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "ünïcödé", "a b{c}=,"])
def test_label_values_come_back_as_they_were(name):
    page = text(snapshot(container(name)))
    assert [s.labels["container"] for s in samples(page, "weir_processes")] == [name]


@pytest.mark.parametrize(
    ("name", "why"), [("bad\udcff", "no UTF-8"), ("x" * 129, "too long"), ("ü" * 65, "too many bytes")]
)
def test_a_label_that_cannot_be_written_drops_its_slice_and_is_counted(name, why):
    page = text(snapshot(container(name), container("bob")))
    assert [s.labels["container"] for s in samples(page, "weir_processes")] == ["bob"], why
    dropped = {s.labels["reason"]: s.value for s in samples(page, "weir_exporter_dropped_series_total")}
    assert dropped["invalid_label"] > 0
    assert dropped["limit"] == dropped["duplicate"] == 0


def test_a_full_page_keeps_whole_slices_oldest_first_and_counts_the_rest():
    many = [container(f"c{i}", started=1e9 + i) for i in range(10)]
    page = text(snapshot(*many), max_series=200)
    kept = [s.labels["container"] for s in samples(page, "weir_processes")]
    assert 0 < len(kept) < 10
    assert kept == [f"c{i}" for i in range(len(kept))]
    assert [s.labels["container"] for s in samples(page, "weir_memory_used_bytes")] == kept
    dropped = {s.labels["reason"]: s.value for s in samples(page, "weir_exporter_dropped_series_total")}
    per_slice = dropped["limit"] / (10 - len(kept))
    assert per_slice == int(per_slice) > 10


def test_of_two_slices_of_one_name_the_newest_is_served():
    old = container("alice", claims(memory_used=1), started=1.0, generation=1, pod_uid="a")
    new = container("alice", claims(memory_used=2), started=2.0, generation=2, pod_uid="b")
    page = text(snapshot(new, old))
    assert [s.value for s in samples(page, "weir_memory_used_bytes")] == [2]
    dropped = {s.labels["reason"]: s.value for s in samples(page, "weir_exporter_dropped_series_total")}
    assert dropped["duplicate"] > 0


def test_nothing_lingers_after_a_slice_is_gone():
    renderer = Renderer("0.1.0")
    assert b'container="alice"' in renderer.render(snapshot(container("alice"))).text
    assert b'container="alice"' not in renderer.render(snapshot(container("bob"))).text


def test_reasons_and_states_are_all_there_from_zero():
    page = text(snapshot(container("alice", claims())))
    assert {s.labels["reason"]: s.value for s in samples(page, "weir_alloc_denied_total")} == {
        "limit": 0,
        "device_oom": 0,
        "policy": 0,
    }
    empty = text(snapshot())
    assert {s.labels["state"] for s in samples(empty, "weir_regions")} == {
        "live",
        "stale",
        "orphan",
        "corrupt",
        "version_mismatch",
    }


def test_what_nobody_can_say_is_no_series():
    unlimited = claims(memory_limit=None, memory_requested=None, core_limit=None, last_kernel=None)
    first = Accounting().advance([container("alice", unlimited)], 0.0)
    page = text(snapshot(slices=first, gpus=gpus(utilization=None, energy_joules=None)))
    for name in (
        "weir_memory_limit_bytes",
        "weir_memory_requested_bytes",
        "weir_last_kernel_timestamp_seconds",
        "weir_sm_used_ratio",
        "weir_enforcement_error_ratio",
        "weir_gpu_utilization_ratio",
        "weir_gpu_energy_joules_total",
    ):
        assert not samples(page, name), name
    assert [s.value for s in samples(page, "weir_sm_limit_ratio")] == [1.0]


def test_an_idle_card_has_zero_slices_and_an_unread_root_has_no_figure():
    assert [s.value for s in samples(text(snapshot()), "weir_gpu_slices")] == [0]
    assert not samples(text(snapshot(regions=None)), "weir_gpu_slices")


def test_without_cards_the_page_is_still_whole():
    page = text(snapshot(container("alice"), gpus=GpusReading()))
    assert samples(page, "weir_processes")
    assert not samples(page, "weir_gpu_info")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (0.25, "0.25"),
        (1e30, "1e+30"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (-float("inf"), "-Inf"),
    ],
)
def test_numbers_are_written_as_the_format_has_them(value, written):
    assert number(value) == written


def test_a_page_is_compressed_once_and_to_the_same_text():
    page = Renderer("0.1.0").render(snapshot(container("alice")))
    assert gzip.decompress(page.compressed) == page.text
    assert page.compressed is page.compressed
