"""An MPS daemon as a user starts one: in a folder of its own, for as long as a measurement takes.

Programs become its clients by the environment that it gives them; others on the card are not touched, and no
setting of the card is. However the measurement ends, the daemon is told to quit, and ended by its process ID
where it does not: every step has a time-out. Its logs stay in the measurement's directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.card.bench import LoadError
from weir.mps import daemon_lives

TOOL = "nvidia-cuda-mps-control"
STEP = 10.0  # seconds that a step may take


class Daemon:
    """A context manager. Raises LoadError where no daemon can be started."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs

    @cached_property
    def _home(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="mps-"))  # short: a socket's path has 107 bytes

    @property
    def pipes(self) -> Path:
        """Where the daemon's pipes are."""
        return self._home / "pipes"

    @property
    def environment(self) -> dict[str, str]:
        """What clients and the daemon itself are told."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(self._home / "logs"),
        }

    def _tell(self, *arguments: str, text: str = "") -> None:
        """One call of the tool, its answer left to its logs: the daemon keeps the pipes that it is given."""
        subprocess.run(
            [TOOL, *arguments],
            env={**os.environ, **self.environment},
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=STEP,
            check=False,
        )

    def _becomes(self, alive: bool) -> bool:
        end = time.monotonic() + STEP
        while daemon_lives(self.pipes) != alive:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def __enter__(self) -> Self:
        for directory in self.environment.values():
            Path(directory).mkdir(parents=True)
        try:
            self._tell("-d")
            if self._becomes(alive=True):
                return self
            why = f"no daemon listens at {self.pipes}"
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        self._end()
        raise LoadError(f"{TOOL} -d: {why}")

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._tell(text="quit\n")
        if daemon_lives(self.pipes) and not self._becomes(alive=False):
            self._kill()
        for log in (self._home / "logs").glob("*.log"):
            shutil.copy(log, self._logs / f"mps-{log.name}")
        shutil.rmtree(self._home, ignore_errors=True)

    def _kill(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.pipes / f"{TOOL}.pid").read_text()), signal.SIGKILL)
