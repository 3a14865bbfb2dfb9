"""Who is the agent: a thread in every supervisor that ticks while it holds the box's lock.

The lock is a flock, which the kernel drops however its holder dies; the others find it free at their next
tick. A supervisor that is about to be stopped (Ctrl-Z) resigns first, for a stopped agent helps nobody. One
that is stopped otherwise (SIGSTOP, a debugger, a driver that hangs) gives no sign of life in the lock file:
after STALE another puts a lock file of its own in its place, and whoever finds that his is not the one at its
path any more holds nothing. What a tick had in hand when it was stopped it may still write when it goes on.

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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir.errors import HostError

TICK = 0.1  # seconds
STALE = 2.0  # … without a sign of life, and another takes over


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


def locked(lock: int, how: int = fcntl.LOCK_EX) -> bool:
    """Whether the lock is ours now; never waits."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Worker(Protocol):
    """What the agent does at each tick."""

    def begin(self) -> None:
        """The lock is ours from now on; until now another may have had it."""

    def tick(self) -> float:
        """One look, and the seconds until the next is wanted; may raise anything."""

    def hurry(self) -> None:
        """The bell rang: the next tick is to look at everything."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The last sign of life of an agent: its process, and how many seconds ago it was."""

    pid: int
    age: float


def sign_of(lock: int) -> Sign | None:
    """What the lock file behind a descriptor says; None where nobody wrote into it."""
    try:
        pid, at = os.pread(lock, 64, 0).split()
        return Sign(int(pid), (time.monotonic_ns() - int(at)) / 1e9)
    except (OSError, ValueError):
        return None


def asleep(box: Path) -> Sign | None:
    """The agent that holds the office and gives no sign of life; None where there is none such."""
    last = holder(box)
    return last if last and last.age >= STALE else None


def holder(box: Path) -> Sign | None:
    """The agent that holds the office, by its last sign of life; None where nobody does, or gave none."""
    try:
        lock = os.open(box / "agent.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        last = sign_of(lock)
        return None if locked(lock, fcntl.LOCK_SH) else last
    finally:
        os.close(lock)


class Office:
    """Runs a worker in a thread whenever this process holds the lock. A context manager."""

    def __init__(self, box: Path, worker: Worker, period: float = TICK) -> None:
        self._worker = worker
        self._period = period
        self._path = box / "agent.lock"
        self._lock = open_lock(self._path)
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
                if not self._away.is_set():
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
        if not self._in_place():
            self.held = False
            self._take_up(open_lock(self._path))
        if not self.held:
            if not (locked(self._lock) or self._deposed()) or not self._in_place():
                return False
            self.held = True
            self._worker.begin()
        self._sign(self._lock)
        return True

    def _in_place(self) -> bool:
        """Whether our lock file is the one that everybody else would open."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._lock), self._path.lstat())
        return False

    def _deposed(self) -> bool:
        """Whether the holder gives no sign of life, and our own lock file has taken the place of his."""
        last = sign_of(self._lock)
        if last is None or last.age < STALE:
            return False
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}.{threading.get_native_id()}")
        with contextlib.ExitStack() as opened:
            lock = open_lock(fresh)
            opened.callback(os.close, lock)
            self._sign(lock)
            if not locked(lock):
                return False
            fresh.rename(self._path)
            opened.pop_all()
        self._take_up(lock)
        return True

    def _take_up(self, lock: int) -> None:
        os.close(self._lock)
        self._lock = lock

    def _sign(self, lock: int) -> None:
        os.pwrite(lock, f"{os.getpid():10} {time.monotonic_ns():20}\n".encode(), 0)

    def _tick(self) -> float:
        try:
            delay = self._worker.tick() if self._elected() else self._period
            self.problem = ""
            return delay
        except Exception as error:  # the driver may fail, a slice may vanish: neither may end the agent
            self.problem = f"{type(error).__name__}: {error}"
            return self._period
