"""The exceptions of Weir, and the exit codes they become. Caught once, in `weir.cli.main`.

    WeirError                exit 1
    ├── UsageError           exit 2    a field has a value that is not allowed
    ├── DoesNotFitError      exit 3    the card has not that much left
    ├── NoGpuError           exit 4    no driver, no card, or not the card that was asked for
    ├── HostError            exit 5    a directory, a permission or a library is missing
    ├── NotExecutableError   exit 126  the command cannot be executed
    └── CommandNotFoundError exit 127  the command does not exist

Each message is one line that names the field, the value and what is allowed.
"""

from __future__ import annotations

from typing import ClassVar


class WeirError(Exception):
    """Anything Weir refuses or fails at, in one line for a person."""

    exit_code: ClassVar[int] = 1


class UsageError(WeirError):
    """A field has a value that is not allowed."""

    exit_code = 2

    def __init__(self, name: str, value: object, allowed: str) -> None:
        text = str(value)[:80]
        shown = text if text and text.isprintable() else ascii(text)
        super().__init__(f"{name}: {shown}: not allowed; {allowed}")
        self.name = name


class DoesNotFitError(WeirError):
    """The card has not that much left."""

    exit_code = 3


class NoGpuError(WeirError):
    """No driver, no card, or not the card that was asked for."""

    exit_code = 4


class HostError(WeirError):
    """A directory, a permission or a library is missing on this host."""

    exit_code = 5


class NotExecutableError(WeirError):
    """The command is there but cannot be executed."""

    exit_code = 126


class CommandNotFoundError(WeirError):
    """The command does not exist."""

    exit_code = 127
