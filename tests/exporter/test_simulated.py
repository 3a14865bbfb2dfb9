"""The exporter's sources on a simulated machine: cards and loads as NVML shows them, in their own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20


@pytest.fixture
def environment(tmp_path):
    state = Path(f"/dev/shm/weir-test-exporter-{os.getpid()}")
    yield {**os.environ, "SIMGPU_STATE": str(state)}
    state.unlink(missing_ok=True)


def top(root, environment, machine, *options):
    command = [sys.executable, "-m", "weir", "top", "--simulate", machine, "--root", str(root), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_card_of_the_machine_is_there_with_its_memory(tmp_path, environment):
    data = json.loads(top(tmp_path, environment, "h200:2", "--json", "--interval", "0.1"))
    assert [gpu["index"] for gpu in data["gpus"]] == [0, 1]
    assert {gpu["memory_capacity_bytes"] for gpu in data["gpus"]} == {143_155 * MIB}
    assert len({gpu["gpu_uuid"] for gpu in data["gpus"]}) == 2
    assert all(collector["success"] for collector in data["collectors"])


def test_a_card_is_shown_as_simulated(tmp_path, environment):
    said = top(tmp_path, environment, "t4", "--once", "--interval", "0.1")
    assert "Tesla T4" in said.splitlines()[0]
    assert "simulated" in said.splitlines()[0]


def slices(root, environment, interval):
    data = json.loads(top(root, environment, "h200", "--json", "--interval", str(interval)))
    return data["slices"]


def test_a_running_slice_is_seen_with_what_it_holds_and_gone_when_it_ends(tmp_path, environment):
    weir = [sys.executable, "-m", "weir"]
    load = [*weir, "load", "--memory", "512MiB", "--seconds", "60", "--report-every", "0.2"]
    run = [*weir, "run", "--name", "alice", "--memory", "2GiB", "--cores", "30", "--simulate", "h200"]
    program = subprocess.Popen(
        [*run, "--root", str(tmp_path), "--", *load], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        while json.loads(program.stdout.readline())["phase"] != "running":
            pass
        (one,) = slices(tmp_path, environment, 1.0)
    finally:
        program.terminate()
        program.communicate(timeout=30)
    claims, audit = one["claims"], one["audit"]
    assert one["container"] == "alice"
    assert one["limit"] == {"memory_bytes": 2048 * MIB, "sm_ratio": 0.3}
    assert claims["memory_used_bytes"] == audit["memory_driver_used_bytes"] == (512 + 518) * MIB
    assert audit["memory_unaccounted_bytes"] == 0
    assert len(claims["processes"]) == 1
    assert claims["limiter_version"]
    assert 0.1 < audit["sm_used_ratio"] < 0.5  # asked for 0.3; others share this machine's processors
    assert slices(tmp_path, environment, 0.1) == []
