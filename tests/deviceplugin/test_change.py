"""`weir set`: a running slice gets what it is promised from now on, or a reason why not."""

import os
import re
import subprocess
import time
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from deviceplugin import change as change_module
from deviceplugin.agent import promised
from deviceplugin.change import put_into_force, set_slice
from deviceplugin.office import Office
from limiter import slices
from limiter.identity import Identity, Share
from limiter.pages import read_stats
from tests.deviceplugin.conftest import PATIENCE, WEIR, used_share
from tests.deviceplugin.fakes import UUIDS
from tests.deviceplugin.programs import WAIT, program
from weir.errors import HostError

GIB = 1 << 30
LOAD = ["--", *WEIR, "load", "--no-calibrate", "--kernel-us", "1000", "--queue", "8"]


def change(box, *arguments):
    command = [*WEIR, "set", *arguments, "--simulate", "h200", "--root", str(box.root)]
    return subprocess.run(
        command, env=box.environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def begin(box, *options, code="context()"):
    running = box.start(*options, *program(f"{code}; {WAIT}"))
    assert running.stdout.readline() == "ready\n", running.stderr.read()
    return running


def test_limits_are_in_force_when_the_command_ends(box):
    begin(box, "--name", "alice", "--memory", "2GiB", "--cores", "30")
    done = change(box, "alice", "--memory", "3GiB", "--cores", "50", "--policy", "burst", "--priority", "0")
    assert (done.returncode, done.stderr) == (0, "")
    alice = box.slices()["alice"]
    device = alice.control.devices[0]
    assert (device.memory_limit, device.core_limit, alice.control.policy) == (3 * GIB, 5000, 1)
    assert (alice.identity.policy, alice.identity.priority) == ("burst", 0)
    assert promised(alice.control, alice.identity) == alice.control


def test_what_was_not_named_stays(box):
    begin(box, "--name", "alice", "--memory", "2GiB", "--cores", "30", "--frame", "10")
    before = box.slices()["alice"].identity
    box.environment["WEIR_FRAME"] = "50"  # for slices that begin
    assert change(box, "alice", "--cores", "40").returncode == 0
    after = box.slices()["alice"].identity
    assert (after.devices[0].memory_bytes, after.frame_ms, after.generation) == (
        before.devices[0].memory_bytes,
        10,
        before.generation,
    )


def test_a_wish_for_a_frame_can_be_taken_back(box):
    begin(box, "--name", "alice", "--cores", "30", "--frame", "10")
    assert change(box, "alice", "--frame", "none").returncode == 0
    assert box.slices()["alice"].identity.frame_ms == 0


def test_who_names_no_change_is_told_every_option_that_is_one():
    options = {one.opts[0] for one in set_slice.params if isinstance(one, click.Option)}
    said = CliRunner().invoke(set_slice, ["alice"]).exception
    assert {f"--{word}" for word in re.findall("--([a-z]+)", str(said))} == options - {"--simulate", "--root"}


REFUSED = {
    "more cores than are left": (["--cores", "60"], 3, "--cores: 60: does not fit; 50 % left"),
    "more memory than is left": (["--memory", "120GiB"], 3, "--memory: 120 GiB: does not fit"),
    "less memory than it holds": (["--memory", "1GiB"], 2, "at least the 1.5 GiB that the slice holds"),
    "no cores": (["--cores", "0"], 2, "--cores: 0: not allowed"),
    "a frame nobody can keep": (["--frame", "1"], 2, "whole milliseconds from 5 to 200, or none"),
    "a lease of a year": (
        ["--lease", "8760h", "--cores", "10"],
        2,
        "--lease: 8760h: not allowed; 0, or a time",
    ),
    "a lease of nothing": (["--lease", "30s"], 2, "say what to lower"),
    "a lease for no time": (["--lease", "0", "--cores", "10"], 2, "--lease: 0s: not allowed; alone"),
    "a lease of a policy": (["--lease", "30s", "--policy", "burst"], 2, "with --memory and --cores only"),
    "nothing": ([], 2, "OPTIONS: '': not allowed; say what to change, with one or more of --memory"),
}


def test_what_cannot_be_is_refused_with_the_reason_and_changes_nothing(box):
    begin(
        box,
        "--name",
        "alice",
        "--memory",
        "2GiB",
        "--cores",
        "30",
        code="context(); check(allocate(1 << 30))",
    )
    begin(box, "--name", "bob", "--memory", "30GiB", "--cores", "50")
    before = box.slices()["alice"].identity
    for case, (arguments, code, reason) in REFUSED.items():
        done = change(box, "alice", *arguments)
        assert (case, done.returncode, done.stderr.count("\n")) == (case, code, 1)
        assert reason in done.stderr
    nobody = change(box, "carol", "--cores", "10")
    assert (nobody.returncode, "slices here: alice, bob" in nobody.stderr) == (2, True)
    assert box.slices()["alice"].identity == before


@pytest.mark.parametrize("made", [True, False], ids=["an empty box", "no box"])
def test_where_there_is_no_slice_it_says_where_it_looked(box, made):
    if made:
        box.box.mkdir(parents=True)
    done = change(box, "alice", "--cores", "10")
    assert (done.returncode, f"slices here: none (in {box.box}: --simulate and" in done.stderr) == (2, True)


def test_a_slice_whose_supervisor_is_gone_can_be_changed(box):
    running = begin(box, "--name", "alice", "--cores", "30")
    running.kill()
    running.wait()
    assert change(box, "alice", "--cores", "20").returncode == 0
    assert box.slices()["alice"].control.devices[0].core_limit == 2000


def test_a_running_program_feels_a_change(box):
    box.start("--name", "alice", "--cores", "10", *LOAD, "--seconds", "30")
    stats = box.box / "slices/alice/rw/stats"
    assert box.eventually(lambda: stats.exists() and read_stats(stats).devices[0].launches > 20)
    assert used_share(stats, 0.5) < 0.3
    assert change(box, "alice", "--cores", "90").returncode == 0
    assert box.eventually(lambda: used_share(stats, 0.5) > 0.5)


def core_limit(box, name):
    return box.slices()[name].control.devices[0].core_limit_at(time.monotonic_ns())


def test_a_lease_lowers_limits_and_ends_by_itself(box):
    begin(
        box,
        "--name",
        "alice",
        "--memory",
        "4GiB",
        "--cores",
        "30",
        code="context(); check(allocate(1 << 31))",
    )
    before = box.slices()["alice"].identity
    assert change(box, "alice", "--lease", "3s", "--cores", "10", "--memory", "2GiB").returncode == 0
    device = box.slices()["alice"].control.devices[0]
    now = device.lease_deadline - 1
    assert (device.core_limit, device.memory_limit) == (3000, 4 * GIB)
    assert (device.core_limit_at(now), device.memory_limit_at(now)) == (1000, 2 * GIB)
    assert box.slices()["alice"].identity.devices == before.devices
    assert box.eventually(lambda: core_limit(box, "alice") == 3000)
    device = box.slices()["alice"].control.devices[0]
    assert device.memory_limit_at(time.monotonic_ns()) == 4 * GIB


def test_a_lease_can_be_ended_and_never_gives_more(box):
    begin(box, "--name", "alice", "--memory", "4GiB", "--cores", "30")
    assert change(box, "alice", "--lease", "1h", "--cores", "10").returncode == 0
    assert core_limit(box, "alice") == 1000
    assert change(box, "alice", "--lease", "0").returncode == 0
    assert core_limit(box, "alice") == 3000
    assert change(box, "alice", "--lease", "1h", "--cores", "90").returncode == 0
    assert core_limit(box, "alice") == 3000


def test_a_lease_that_lowers_nothing_or_still_lowers_is_said_though_it_was_done(box):
    begin(box, "--name", "alice", "--cores", "30")
    done = change(box, "alice", "--lease", "1h", "--cores", "50")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "weir: slice alice: --cores 50 lowers nothing: its own limit is no higher\n"
    quiet = change(box, "alice", "--lease", "1h", "--cores", "10")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    done = change(box, "alice", "--cores", "40")
    assert (done.returncode, core_limit(box, "alice")) == (0, 1000)
    assert done.stderr.startswith("weir: slice alice: --cores 40 holds when its lease ends, in 3")


class Idle:
    """An agent that gives its signs of life and obeys nobody, or says what it fails at."""

    def __init__(self, error=None):
        self.error = error

    def begin(self):
        pass

    def tick(self):
        if self.error:
            raise self.error
        return 0.01

    def hurry(self):
        pass


@pytest.mark.parametrize(
    ("error", "ours", "said"),
    [
        (None, False, f"process {os.getpid()}, the agent, does not obey; end that weir run"),
        (RuntimeError("GPU is lost"), True, "RuntimeError: GPU is lost"),
        (None, True, "its control page cannot be written"),
    ],
    ids=["another's", "ours fails", "ours does nothing"],
)
def test_a_change_that_no_agent_obeys_names_the_slice_and_whoever_should_have(
    tmp_path, monkeypatch, error, ours, said
):
    monkeypatch.setattr(change_module, "_PATIENCE", 0.3)
    identity = Identity("alice", 1, 0.0, (Share(UUIDS[0], 0, GIB, 3000, 3000),))
    path, lock = slices.create(tmp_path, identity, slices.first_control(identity, [GIB], [0]))
    wanted = replace(identity, devices=(replace(identity.devices[0], cores_bp=4000),))
    with Office(tmp_path, Idle(error), 0.01) as office:
        while not office.held:
            time.sleep(0.01)
        with pytest.raises(HostError) as told:
            put_into_force(tmp_path, path, wanted, office if ours else None)
    os.close(lock)
    assert str(told.value).startswith("slice alice: written down, but not in force after 0 s: ")
    assert said in str(told.value)


def test_a_change_for_which_there_is_no_agent_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(change_module, "_PATIENCE", 0.1)
    identity = Identity("alice", 1, 0.0, (Share(UUIDS[0], 0, GIB, 3000, 3000),))
    path, lock = slices.create(tmp_path, identity, slices.first_control(identity, [GIB], [0]))
    with pytest.raises(HostError, match=r"no agent holds /.*/agent\.lock"):
        put_into_force(tmp_path, path, replace(identity, policy="burst"))
    os.close(lock)


def test_a_running_program_feels_a_lease(box):
    box.start("--name", "alice", "--cores", "90", *LOAD, "--seconds", "30")
    stats = box.box / "slices/alice/rw/stats"
    assert box.eventually(lambda: stats.exists() and read_stats(stats).devices[0].launches > 20)
    assert change(box, "alice", "--lease", "5m", "--cores", "10").returncode == 0
    assert box.eventually(lambda: used_share(stats, 0.5) < 0.3)
    assert change(box, "alice", "--lease", "0").returncode == 0
    assert box.eventually(lambda: used_share(stats, 0.5) > 0.5)
