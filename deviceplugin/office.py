"""Who is the agent: a thread in every supervisor that ticks while it holds the box's lock.

The lock is a flock, which the kernel drops however its holder dies; the others find it free at their next
tick. A supervisor that is about to be stopped (Ctrl-Z) resigns first, for a stopped agent helps nobody.

Who has changed what a slice was promised rings the bell, a FIFO beside the lock: the holder ticks at once. It
alone listens; a bell that nobody hears is no error, for whoever holds the lock next looks anyway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import threading
from pathlib import Path
from typing import Protocol

from weir.errors import HostError

TICK = 0.1  # seconds


def open_lock(path: Path) -> int:
    """A descriptor of a lock file, made if need be, never through a link. Raises HostError."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}; remove it, or give another --root") from error


def open_bell(box: Path) -> int:
    """The box's bell, made if need be, never through a link. Raises HostError."""
    path = box / "agent.bell"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    try:
        bell = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}; remove it, or give another --root") from error
    if not stat.S_ISFIFO(os.fstat(bell).st_mode):
        os.close(bell)
        raise HostError(f"{path}: not a FIFO; remove it, or give another --root")
    return bell


def ring(bell: int) -> None:
    """Have the agent look now."""
    with contextlib.suppress(BlockingIOError):  # it rings already
        os.write(bell, b"!")


class Worker(Protocol):
    """What the agent does at each tick."""

    def begin(self) -> None:
        """The lock is ours from now on; until now another may have had it."""

    def tick(self) -> float:
        """One look, and the seconds until the next is wanted; may raise anything."""

    def hurry(self) -> None:
        """The bell rang: the next tick is to look at everything."""


class Office:
    """Runs a worker in a thread whenever this process holds the lock. A context manager."""

    def __init__(self, box: Path, worker: Worker, period: float = TICK) -> None:
        self._worker = worker
        self._period = period
        self._lock = open_lock(box / "agent.lock")
        self._bell = open_bell(box)
        self._ending = threading.Event()
        self._away = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="agent", daemon=True)
        self.held = False
        self.problem = ""  # of the last tick; a worker that fails is asked again at the next

    def __enter__(self) -> Office:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        ring(self._bell)
        self._thread.join(timeout=5)  # a driver call that hangs must not keep a finished program from ending
        os.close(self._lock)
        os.close(self._bell)

    def resign(self) -> None:
        """Give the lock to whoever wants it, until `resume`."""
        self._away.set()
        if self._turn.acquire(timeout=1):  # unless the driver hangs
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self.held = False
            self._turn.release()

    def resume(self) -> None:
        """Stand for the office again."""
        self._away.clear()

    def _work(self) -> None:
        delay = self._period
        while not self._rest(delay):
            delay = self._period
            with self._turn:
                if not self._away.is_set() and self._elected():
                    delay = min(self._tick(), self._period)

    def _rest(self, delay: float) -> bool:
        """Wait for the next tick, or the bell; whether it is the end."""
        if not self.held:
            return self._ending.wait(delay)
        if select.select([self._bell], [], [], delay)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 4096)
            self._worker.hurry()
        return self._ending.is_set()

    def _elected(self) -> bool:
        if not self.held:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self.held = True
            self._worker.begin()
        return True

    def _tick(self) -> float:
        try:
            delay = self._worker.tick()
            self.problem = ""
            return delay
        except Exception as error:  # the driver may fail, a slice may vanish: neither may end the agent
            self.problem = f"{type(error).__name__}: {error}"
            return self._period
