"""`weir doctor`: each finding, and the verdict."""

import json
import subprocess
from pathlib import Path

import pytest

from deviceplugin import findings
from deviceplugin.doctor import enforced, examine
from deviceplugin.findings import FAIL, NOTE, OK, Finding
from limiter.slices import Observation, observe
from tests.deviceplugin.conftest import WEIR
from tests.deviceplugin.fakes import GIB, UUIDS, FakeNvml, gpu, listener
from weir.errors import NoGpuError, UsageError
from weir.nvml import Gpu


def states(found):
    return {one.subject: one.state for one in found}


def no_driver(_):
    raise NoGpuError("no driver")


def broken_driver(_):
    return FakeNvml(next_error=RuntimeError("GPU is lost"))


def unknown_machine(_):
    raise UsageError("--simulate", "h900", "one of h200")


def test_a_host_with_a_card_can_enforce(tmp_path):
    found = examine("h200", tmp_path / "box", lambda _: FakeNvml())
    assert set(states(found).values()) <= {OK, NOTE}
    assert any(line.startswith("memory: enforced at calls for buffers") for line in enforced(found))


def test_memory_that_is_not_refused_at_the_call_is_said_to_be_only_counted():
    (line,) = [line for line in enforced([]) if "cannot be accounted for" in line]
    assert "counted" in line
    assert "--unaccounted refuse" in line


@pytest.mark.parametrize("driver", [no_driver, broken_driver, lambda _: FakeNvml(cards=[])])
def test_without_a_card_that_answers_nothing_is_enforced(tmp_path, driver):
    found = examine(None, tmp_path / "box", driver)
    failed = [one for one in found if one.state == FAIL]
    assert failed
    assert all(one.advice for one in failed)
    assert enforced(found) == ["nothing is enforced until the failures above are mended"]


def test_a_machine_that_nobody_knows_is_bad_input(tmp_path):
    with pytest.raises(UsageError):
        examine("h900", tmp_path / "box", unknown_machine)


def test_programs_outside_slices_are_named():
    found = findings.outsiders(FakeNvml(on_card={UUIDS[0]: {4242: 2 * GIB}}), [])
    assert found.state == NOTE
    assert "4242 (2 GiB)" in found.found


def test_mig_is_noted():
    card = Gpu(0, UUIDS[0], "NVIDIA H200", "0", GIB, mig_mode=True)
    assert states(findings.cards(FakeNvml(cards=[card])))["GPU 0"] == NOTE


def test_every_card_is_listed():
    assert [one.subject for one in findings.cards(FakeNvml(cards=[gpu(0), gpu(1)]))] == [
        "driver",
        "GPU 0",
        "GPU 1",
    ]


def test_a_pid_namespace_of_its_own_is_noted_for_real_cards_only(tmp_path):
    assert findings.pid_namespace(simulated=False, namespace=tmp_path).state == NOTE
    assert findings.pid_namespace(simulated=True, namespace=tmp_path).state == OK


def test_an_mps_daemon_is_noted(tmp_path):
    here = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert findings.mps_daemon(here).state == OK
    with listener(tmp_path):
        assert findings.mps_daemon(here).state == NOTE


CARD = "drm/0000:00:00.0/vram0"


@pytest.mark.parametrize(
    ("capacity", "state", "said"),
    [
        (None, OK, "no dmem controller"),
        ("drm/0000:41:00.0/vram0 8514437120\n", OK, "knows no card of these"),
        (f"{CARD} 8514437120\n", NOTE, f"{CARD} (no limit here)"),
        ("nonsense\n", OK, "knows no card of these"),
    ],
    ids=["an older kernel", "another card's", "this card's", "not a region"],
)
def test_the_kernels_own_limits_are_named_where_they_are(tmp_path, capacity, state, said):
    if capacity is not None:
        (tmp_path / "dmem.capacity").write_text(capacity)
    found = findings.kernel_limits(FakeNvml(), tmp_path, tmp_path / "nowhere")
    assert (found.state, said in found.found) == (state, True)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("a/b", "3 GiB of 8 GiB used here"),
        ("a/b/c", "3 GiB of 8 GiB used here"),
        ("a", "5 GiB of 12 GiB used here"),
        ("d", "no limit here"),
    ],
    ids=["its own", "a cgroup that is not counted is its parent's", "a parent", "another"],
)
def test_the_lowest_limit_on_the_way_up_holds(tmp_path, inside, said):
    for cgroup in ("a/b/c", "d"):
        (tmp_path / cgroup).mkdir(parents=True)
    (tmp_path / "dmem.capacity").write_text(f"{CARD} {100 * GIB}\nother 5\n")
    for cgroup, limit, used in (("a/b", 8 * GIB, 3), ("a", 12 * GIB, 5), ("d", "max", 1)):
        (tmp_path / cgroup / "dmem.max").write_text(f"other 1\n{CARD} {limit}\n")
        (tmp_path / cgroup / "dmem.current").write_text(f"{CARD} {used * GIB}\n")
    (tmp_path / "membership").write_text(f"3:cpu:/old\n0::/{inside}\n")
    assert said in findings.kernel_limits(FakeNvml(), tmp_path, tmp_path / "membership").found


def a_file(root):
    root.write_text("")


def open_to_all(root):
    root.mkdir()
    root.chmod(0o777)


def a_link(root):
    root.symlink_to("/")


@pytest.mark.parametrize("spoil", [a_file, open_to_all, a_link])
def test_a_root_that_cannot_be_used_fails(tmp_path, spoil):
    spoil(tmp_path / "root")
    assert findings.root(tmp_path / "root/gpu").state == FAIL


def test_a_root_in_which_no_directory_can_be_made_fails_though_its_mode_allows_it():
    found = findings.root(Path("/proc/gpu"))
    assert (found.state, found.advice) == (FAIL, "give another with --root")
    assert found.found == "/proc: no directory can be made in it: No such file or directory"


def test_slices_that_cannot_be_listed_are_a_finding_like_others(tmp_path):
    (tmp_path / "slices").touch()
    failed = {
        one.subject: one for one in examine("h200", tmp_path, lambda _: FakeNvml()) if one.state == FAIL
    }
    assert failed["slices"].found == f"{tmp_path}/slices: Not a directory"
    assert failed["slices"].advice


def seen(name, state, supervised):
    return Observation(Path("/root/slices") / name, state, supervised)


@pytest.mark.parametrize(
    ("slices", "noted"),
    [
        ([], None),
        ([seen("alice", "live", supervised=True)], None),
        ([seen("alice", "orphan", supervised=False), seen("bob", "live", supervised=True)], None),
        ([seen("alice", "orphan", supervised=False), seen("bob", "orphan", supervised=False)], "alice, bob"),
        ([seen("alice", "stale", supervised=False)], None),
    ],
    ids=["no slice", "a live one", "another's agent", "nobody's", "a dead one"],
)
def test_slices_that_nobody_looks_at_any_more_are_noted(tmp_path, slices, noted):
    found = [one.found for one in findings.agent(tmp_path, slices)]
    assert [f"none, for what started {noted} is gone" in one for one in found] == [True] * bool(noted)


def test_looking_at_the_root_makes_nothing(tmp_path):
    assert findings.root(tmp_path / "a/b/gpu").state == OK
    assert list(tmp_path.iterdir()) == []


def test_spoiled_slices_are_listed_with_what_to_remove(tmp_path):
    (tmp_path / "slices").mkdir()
    (tmp_path / "slices/junk").touch()
    (found,) = findings.slices(observe(tmp_path))
    assert (found.state, found.advice) == (NOTE, f"remove {tmp_path / 'slices/junk'}")


@pytest.mark.parametrize(("states", "held"), [([OK], True), ([NOTE], False)])
def test_what_cannot_be_checked_is_said_not_to_be_enforced(states, held):
    lines = enforced([Finding("process IDs", state, "") for state in states])
    assert any("not enforced" in line and "NVML" in line for line in lines) is not held


def test_the_command_reports_as_json_on_a_simulated_machine(box):
    command = [*WEIR, "doctor", "--simulate", "h200", "--root", str(box.root), "--json"]
    result = subprocess.run(command, env=box.environment, capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)
    assert (result.returncode, report["able"]) == (0, True)
    assert {"limiter", "slice root", "kernel locks", "driver", "GPU 0"} <= {
        one["subject"] for one in report["findings"]
    }
    assert not box.root.exists()


def test_the_command_says_each_thing_on_a_line(box):
    command = [*WEIR, "doctor", "--simulate", "h200", "--root", str(box.root)]
    shown = subprocess.run(command, env=box.environment, capture_output=True, text=True, check=False).stdout
    assert "ok    GPU 0: NVIDIA H200" in shown
    assert "\x1b" not in shown
