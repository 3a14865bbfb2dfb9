"""`weir run` on a simulated machine and a root of the test's own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from limiter.pages import read_stats
from limiter.slices import Observation, observe
from tests.deviceplugin.agent_world import AgentWorld

WEIR = [sys.executable, "-m", "weir"]
_OURS = ("WEIR_", "SIMGPU_")
PATIENCE = 30  # seconds; only a broken program needs them


class Box:
    """Starts `weir run` and looks at the slices it makes."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.box = self.root / "simulated-h200"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "SIMGPU_STATE": str(directory / "machine"),
        }
        self.started: list[subprocess.Popen[str]] = []

    def command(self, *arguments: str | Path) -> list[str]:
        options = ["--simulate", "h200", "--root", self.root]
        return [*WEIR, "run", *map(str, options), *map(str, arguments)]

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """`weir run` to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """`weir run` in the background; `stdin` and `stdout` are pipes."""
        return self.begin(self.command(*arguments))

    def begin(self, command: list[str]) -> subprocess.Popen[str]:
        """The same for another command that makes slices here."""
        process = subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def slices(self) -> dict[str, Observation]:
        return {one.path.name: one for one in observe(self.box)}

    def eventually(self, true: Callable[[], object]) -> bool:
        """Whether it becomes true before patience ends."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if true():
                return True
            time.sleep(0.02)
        return False


def used_share(stats: Path, seconds: float) -> float:
    """GPU time that a slice uses in the next `seconds`, as a share."""
    before, began = read_stats(stats, processes=False).devices[0].gpu_time, time.monotonic()
    time.sleep(seconds)
    used = read_stats(stats, processes=False).devices[0].gpu_time - before
    return used / (time.monotonic() - began) / 1e9


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    here = Box(tmp_path)
    yield here
    for process in here.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AgentWorld]:
    here = AgentWorld(tmp_path)
    with here.open:
        yield here
    for lock in here.locks.values():
        os.close(lock)
