"""Runs the command of `weir run` as if it had been started without it: signals, job control, exit code.

The program shares our process group, so a terminal's Ctrl-C or Ctrl-Z reaches it directly; only signals that
somebody sent to us by `kill` are passed on. When it stops, so do we, and the shell sees a stopped job.
Signals are waited for, never handled: `block` must be called before any thread is started.

One thing is different: what the program leaves behind becomes this process's child while that lives, not
init's. So what was started in a slice can be told from the rest, however it came about (belonging.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from weir.errors import CommandNotFoundError, NotExecutableError

PASSED_ON = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGTSTP,
        signal.SIGCONT,
    }
)
_PR_SET_CHILD_SUBREAPER = 36
_SI_KERNEL = 0x80  # si_code of what the terminal sends, to every process of the group at once
# Python ignores these, and an ignored signal would stay ignored in the program.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def adopt_orphans() -> None:
    """Become the parent of whatever the program leaves behind. A kernel that cannot is no reason to fail."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def resolve(command: str, search: str) -> str:
    """The file to execute. Raises CommandNotFoundError or NotExecutableError, as a shell tells them apart."""
    if found := shutil.which(command, path=search):
        return found
    directories = [""] if "/" in command else search.split(os.pathsep)
    for candidate in (Path(directory, command) for directory in directories):
        if candidate.is_file():
            raise NotExecutableError(f"{command}: cannot be executed; {candidate} has no execute permission")
        if candidate.is_dir() and "/" in command:
            raise NotExecutableError(f"{command}: cannot be executed; it is a directory")
    where = "no such file" if "/" in command else "no such command in PATH"
    raise CommandNotFoundError(f"{command}: {where}")


def block() -> set[signal.Signals]:
    """Keep our signals for `Child.wait`; gives the mask that the program starts with.

    Who starts us may ignore SIGCHLD. Then the kernel would not tell of the program's end; POSIX leaves open
    whether a program inherits that, and ours does not.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
    return {number for number in before if isinstance(number, signal.Signals)}


def _interpreter(file: str) -> str:
    """What a script's first line names; for other files, the program loader is meant."""
    with Path(file).open("rb") as script:
        first = script.readline(256)
    return first[2:].decode(errors="replace").strip() if first.startswith(b"#!") else "the program loader"


class Child:
    """The program, started. `wait` ends when it does."""

    def __init__(
        self,
        file: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        mask: set[signal.Signals],
    ) -> None:
        """Raises NotExecutableError where the kernel refuses the file."""
        try:
            self.pid = os.posix_spawn(
                file, list(arguments), environment, setsigmask=mask, setsigdef=_IGNORED_BY_PYTHON
            )
        except FileNotFoundError as error:  # the file is there: it is what its first line names that is not
            raise NotExecutableError(
                f"{arguments[0]}: cannot be executed; its interpreter does not exist: {_interpreter(file)}"
            ) from error
        except OSError as error:
            raise NotExecutableError(f"{arguments[0]}: cannot be executed; {error.strerror}") from error

    def wait(self, before_stop: Callable[[], None], after_stop: Callable[[], None]) -> int:
        """Pass signals on until the program ends; its exit code, or 128 + the signal that ended it.

        The callables are called around our own stop, when the program has been stopped.
        """
        while True:
            came = signal.sigwaitinfo(PASSED_ON | {signal.SIGCHLD})
            if came.si_signo != signal.SIGCHLD:
                if came.si_code != _SI_KERNEL:
                    with contextlib.suppress(PermissionError):  # it runs as another user: sudo
                        os.kill(self.pid, came.si_signo)
                continue
            for status in self._statuses():
                if not os.WIFSTOPPED(status):
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else 128 - code
                before_stop()
                os.kill(os.getpid(), signal.SIGSTOP)
                after_stop()

    def _statuses(self) -> Iterator[int]:
        """What became of the program since the last look; adopted processes that ended are laid to rest."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == self.pid:
                yield status
            if not pid:
                return
