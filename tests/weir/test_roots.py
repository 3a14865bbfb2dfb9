"""Where slices are kept, and what is not trusted as a root."""

import os
import stat
from pathlib import Path

import pytest

from weir.errors import HostError
from weir.roots import box_root, make_box_root, user_root


def test_the_runtime_directory_if_there_is_one(tmp_path):
    assert user_root({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "weir"


@pytest.mark.parametrize("runtime", [None, "", "relative", "/does/not/exist"])
def test_otherwise_a_directory_of_the_user_s(tmp_path, runtime):
    environment = {} if runtime is None else {"XDG_RUNTIME_DIR": runtime}
    assert user_root(environment, tmp_path) == tmp_path / f"weir-{os.getuid()}"


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (None, "gpu"),
        ("h200", "simulated-h200"),
        ("h200:2", "simulated-h200_2"),
        ("h200:1,mig=1g.18gb*7", "simulated-h200_1_mig_1g.18gb_7"),
    ],
)
def test_real_and_simulated_machines_never_mix(tmp_path, machine, name):
    assert box_root(tmp_path, machine) == tmp_path / name


def test_a_root_is_made_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        box = make_box_root(tmp_path / "deep/root", "h200")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (box, box.parent)] == [0o700, 0o700]


def others_may_write(root):
    root.mkdir()
    root.chmod(0o770)


def somebody_elses(root):
    root.mkdir()
    if os.getuid():
        pytest.skip("only root can give a directory away")
    os.chown(root, 12345, -1)


def a_file(root):
    root.touch()


def a_link(root):
    (root.parent / "real").mkdir(mode=0o700)
    root.symlink_to("real")


@pytest.mark.parametrize("spoil", [others_may_write, somebody_elses, a_file, a_link])
def test_a_root_that_others_could_change_is_refused(tmp_path, spoil):
    spoil(tmp_path / "root")
    with pytest.raises(HostError, match=r"^--root: ") as refused:
        make_box_root(tmp_path / "root", None)
    assert refused.value.exit_code == 5


def test_a_root_that_cannot_be_made_is_refused():
    with pytest.raises(HostError, match=r"^--root: /proc/weir"):
        make_box_root(Path("/proc/weir"), None)
