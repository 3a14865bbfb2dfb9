"""Where a user's slices are on this box, for the command that makes them and for those that look.

    $XDG_RUNTIME_DIR/weir, else /tmp/weir-<uid>      the root, or what --root says
    └── gpu, or simulated-<machine>                  one box: simulated and real cards never mix

A root that somebody else owns, or that others may write to, is refused: its owner could swap the pages under
a running program. Looking makes nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from weir.errors import HostError

PRIVATE = 0o700


def user_root(environment: Mapping[str, str] | None = None, temporary: Path = Path("/tmp")) -> Path:  # noqa: S108 -- owner and mode are checked before use
    """The root of this user where --root names none."""
    has = os.environ if environment is None else environment
    runtime = Path(has.get("XDG_RUNTIME_DIR") or "/nonexistent")
    if runtime.is_absolute() and runtime.is_dir() and os.access(runtime, os.W_OK | os.X_OK):
        return runtime / "weir"
    return temporary / f"weir-{os.getuid()}"


def box_root(root: Path | None, simulate: str | None) -> Path:
    """The root of one box: this host's cards, or a simulated machine's."""
    box = "gpu" if simulate is None else "simulated-" + re.sub(r"[^a-z0-9.+-]+", "_", simulate)
    return (root or user_root()) / box


def make_box_root(root: Path | None, simulate: str | None) -> Path:
    """The same, made if need be, with nobody else able to write. Raises HostError."""
    box = box_root(root, simulate)
    try:
        for directory in (box.parent, box):
            directory.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            check_private(directory)
        if not os.access(box, os.W_OK | os.X_OK):
            raise HostError(f"--root: {box}: no write access; give a directory that you may write to")
    except OSError as error:
        why = f"{error.filename or box}: {error.strerror}"
        raise HostError(f"--root: {why}; give a directory that you may write to") from error
    return box


def check_private(directory: Path) -> None:
    """Raise HostError unless `directory` is a real directory of this user's that nobody else may write to."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise HostError(f"--root: {directory}: not a directory (links are not followed)")
    if found.st_uid != os.getuid():
        raise HostError(f"--root: {directory}: belongs to user {found.st_uid}; give a directory of your own")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(f"--root: {directory}: others may write to it; chmod go-w it, or give another")
