"""The MPS daemon of the card harness: started, ended, and ended by force, with a tool of the test's own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.card import daemon
from benchmarks.card.bench import LoadError
from benchmarks.card.daemon import TOOL, Daemon
from deviceplugin.mps import daemon_lives

# Listens, with its process ID beside it, as the real one does; `quit` ends it unless it is deaf.
FAKE = """#!{python}
import os, signal, socket, sys, time
pipes = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
pid = f"{{pipes}}/{tool}.pid"
if sys.argv[1:] == ["-d"]:
    if os.fork():
        os._exit(0)
    signal.alarm(60)
    with open(pid, "w") as file:
        file.write(str(os.getpid()))
    with open(os.environ["CUDA_MPS_LOG_DIRECTORY"] + "/control.log", "w") as log:
        log.write("started")
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.bind(f"{{pipes}}/control")
    control.listen()
    signal.pause()
elif sys.stdin.read() == "quit\\n" and not {deaf}:
    os.kill(int(open(pid).read()), signal.SIGTERM)
"""


@pytest.fixture(params=[False, True], ids=["one that quits", "one that does not"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / TOOL
    fake.write_text(FAKE.format(python=sys.executable, tool=TOOL, deaf=request.param))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(daemon, "STEP", 1.0 if request.param else 10.0)


@pytest.mark.usefixtures("tool")
def test_a_daemon_lives_inside_and_nothing_of_it_after(tmp_path: Path) -> None:
    with Daemon(tmp_path) as one:
        assert daemon_lives(one.pipes)
        assert one.environment["CUDA_MPS_PIPE_DIRECTORY"] == str(one.pipes)
        pid = (one.pipes / f"{TOOL}.pid").read_text()
        assert Path("/proc", pid, "exe").exists()
    assert not daemon_lives(one.pipes)
    assert not one.pipes.parent.exists()
    assert (tmp_path / "mps-control.log").read_text() == "started"
    end = time.monotonic() + 10
    while Path("/proc", pid, "exe").exists() and time.monotonic() < end:
        time.sleep(0.01)  # its socket goes a moment before it does
    assert not Path("/proc", pid, "exe").exists()


@pytest.mark.usefixtures("tool")
def test_a_measurement_that_fails_leaves_no_daemon(tmp_path: Path) -> None:
    def fails() -> None:
        with Daemon(tmp_path) as one:
            left.append(one.pipes)
            raise LoadError("a load that never began")

    left: list[Path] = []
    with pytest.raises(LoadError):
        fails()
    assert not daemon_lives(left[0])


def test_without_the_tool_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadError, match=TOOL), Daemon(tmp_path):
        pass
