"""One agent at a time, and a successor whenever it ends."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deviceplugin.office import STALE, Office, open_bell, ring, sign_of
from weir.errors import HostError

PERIOD = 0.01
SECONDS = 20


class Work:
    """Counts its ticks and can be waited for."""

    def __init__(self, error=None):
        self.ticked = threading.Event()
        self.rang = threading.Event()
        self.error = error
        self.begun = 0

    def begin(self):
        self.begun += 1

    def tick(self):
        self.ticked.set()
        if self.error:
            raise self.error
        return PERIOD

    def hurry(self):
        self.rang.set()

    def soon(self):
        self.ticked.clear()
        return self.ticked.wait(SECONDS)

    def never(self):
        self.ticked.clear()
        return not self.ticked.wait(PERIOD * 20)


def eventually(true):
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(PERIOD)


def open_files(directory):
    """Those of this process that lie in a directory, by name."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(descriptor.readlink())
    return sorted(path.name for path in found if path.parent == directory)


def test_one_works_and_the_next_takes_over_when_it_ends(tmp_path):
    first, second = Work(), Work()
    with Office(tmp_path, second, PERIOD) as successor:
        assert second.soon()
        with Office(tmp_path, first, PERIOD):
            assert first.never()
        successor.resign()
    with Office(tmp_path, first, PERIOD):
        assert first.soon()


def test_a_holder_that_resigns_is_succeeded_until_it_resumes(tmp_path):
    first, second = Work(), Work()
    with Office(tmp_path, first, PERIOD) as stopped:
        assert first.soon()
        stopped.resign()
        with Office(tmp_path, second, PERIOD):
            assert second.soon()
            assert first.never()
        stopped.resume()
        assert first.soon()
    assert (first.begun, second.begun) == (2, 1)


HOLD = """
import sys
from pathlib import Path
from deviceplugin.office import Office
class Work:
    def begin(self):
        pass
    def tick(self):
        print("ticked", flush=True)
        return 0.01
with Office(Path(sys.argv[1]), Work(), 0.01):
    sys.stdin.read()
"""


def test_a_killed_holder_is_succeeded(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"ticked\n"
    work = Work()
    with Office(tmp_path, work, PERIOD):
        assert work.never()
        os.kill(holder.pid, signal.SIGKILL)
        assert work.soon()
    holder.communicate()


def test_a_stopped_holder_is_succeeded_and_holds_nothing_when_it_goes_on(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"ticked\n"
    os.kill(holder.pid, signal.SIGSTOP)
    work = Work()
    with Office(tmp_path, work, PERIOD):
        assert work.soon()
        with (tmp_path / "agent.lock").open() as lock:
            sign = sign_of(lock.fileno())
        assert (sign.pid, sign.age < STALE) == (os.getpid(), True)
        os.set_blocking(holder.stdout.fileno(), False)
        holder.stdout.read()
        os.kill(holder.pid, signal.SIGCONT)
        for _ in range(50):
            assert work.soon()
        assert (holder.stdout.read() or b"").count(b"ticked") <= 1  # what it had in hand
    os.set_blocking(holder.stdout.fileno(), True)
    assert holder.stdout.readline() == b"ticked\n"
    holder.communicate()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_holder_whose_lock_file_was_removed_makes_another(tmp_path):
    work = Work()
    with Office(tmp_path, work, PERIOD):
        assert work.soon()
        (tmp_path / "agent.lock").unlink()
        assert work.soon()
        assert work.soon()
        assert (tmp_path / "agent.lock").exists()


def test_a_link_in_the_lock_files_place_is_told_and_the_office_held_again_without_it(tmp_path):
    path, link = tmp_path / "agent.lock", tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    work = Work()
    with Office(tmp_path, work, PERIOD) as office:
        assert work.soon()
        link.replace(path)
        eventually(lambda: "agent.lock" in office.problem)
        assert work.never()
        assert "agent.lock" in office.problem
        path.unlink()
        assert work.soon()
        assert open_files(tmp_path) == ["agent.bell", "agent.lock"]
    assert office.problem == ""


def test_a_takeover_that_fails_is_told_and_leaves_no_file_open(tmp_path, monkeypatch):
    def fail(*_):
        tries.append(1)
        raise OSError("read-only")

    tries = []
    monkeypatch.setattr(Path, "rename", fail)
    (tmp_path / "agent.lock").write_text(f"{os.getpid()} 0\n")
    stopped = os.open(tmp_path / "agent.lock", os.O_RDONLY)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    with Office(tmp_path, Work(), PERIOD) as office:
        eventually(lambda: len(tries) > 3)
        assert office.problem == "OSError: read-only"
    assert open_files(tmp_path) == ["agent.lock"]
    os.close(stopped)


def test_a_tick_that_fails_is_told_and_tried_again(tmp_path):
    work = Work(RuntimeError("no driver"))
    with Office(tmp_path, work, PERIOD) as office:
        assert work.soon()
        assert work.soon()
        assert office.problem == "RuntimeError: no driver"


def test_the_lock_is_not_taken_through_a_link(tmp_path):
    (tmp_path / "agent.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match=r"agent\.lock"):
        Office(tmp_path, Work())


def test_the_bell_wakes_the_holder_and_is_no_error_where_nobody_listens(tmp_path):
    bell = open_bell(tmp_path)
    ring(bell)
    work = Work()
    with Office(tmp_path, work, PERIOD):
        assert work.rang.wait(SECONDS)
        work.rang.clear()
        ring(bell)
        assert work.rang.wait(SECONDS)
    os.close(bell)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("elsewhere")])
def test_a_bell_that_is_none_is_refused(tmp_path, make):
    make(tmp_path / "agent.bell")
    with pytest.raises(HostError, match=r"agent\.bell"):
        Office(tmp_path, Work())
