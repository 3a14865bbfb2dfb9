"""slice.json: who a slice is for, and what it was promised. Written by `weir run` and `weir set`.

On a shared machine the file may be anything: every field is checked for its type and range before it is used,
and a file that is none is a CorruptPageError, as a page that is none.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from limiter import layout
from limiter.pages import CorruptPageError, uuid_bytes
from weir.errors import HostError

MAX_FRAME_MS = 200
BACKENDS = ("weir", "mps")  # who holds the share of the card: the limiter, or the driver's MPS
_MAX_IDENTITY = 64 << 10
_LATEST = 1 << 40  # Unix time; far beyond any clock
_MAX_INDEX = 1 << 16


@dataclass(frozen=True, slots=True)
class Share:
    """What a slice asked of one card. No memory asked is None; no cores asked is a limit of 10,000."""

    uuid: str
    index: int  # the card's index on the host
    memory_bytes: int | None
    cores_bp: int = layout.FULL_CORES
    guarantee_bp: int = 0
    context_bytes: int = 0  # granted on top of the memory asked, for a context that does not count

    @property
    def promised_bytes(self) -> int | None:
        """What is kept free for it on the card, and its limit; None where no memory was asked."""
        return None if self.memory_bytes is None else self.memory_bytes + self.context_bytes


@dataclass(frozen=True, slots=True)
class Lease:
    """Limits of each card that hold until `deadline` (CLOCK_MONOTONIC, ns) where they are smaller."""

    deadline: int = 0
    memory_bytes: int | None = None
    cores_bp: int = layout.FULL_CORES


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a slice is for. `generation` is minted at each start; `created` is Unix time."""

    name: str
    generation: int
    created: float
    devices: tuple[Share, ...]
    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""
    policy: str = "fixed"
    priority: int = 1  # 0 goes before 1 where both want time that nobody was promised
    frame_ms: int = 0  # the longest frame of time slots that it agrees to; 0: any
    unaccounted: str = "count"  # or "refuse": calls whose memory cannot be accounted for
    lease: Lease = Lease()
    backend: str = "weir"
    mps_pipes: str = ""  # where the daemon listens that holds it; empty where none does

    def paced_bp(self, share: Share) -> int:
        """What the limiter paces by: no cap where the driver holds the share, so that it only measures."""
        return share.cores_bp if self.backend == "weir" else layout.FULL_CORES


def load_identity(path: Path) -> Identity:
    """slice.json of a slice directory. Raises CorruptPageError."""
    file = path / "slice.json"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            return _identity(json.loads(stream.read(_MAX_IDENTITY)))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptPageError(f"{file}: {error}") from error


def _identity(data: Any) -> Identity:
    if not isinstance(data, dict):
        raise ValueError("not an object")
    devices = tuple(Share(**share) for share in data.pop("devices"))
    lease = Lease(**data.pop("lease", {}))
    identity = Identity(devices=devices, lease=lease, **data)
    for name in ("name", "namespace", "pod", "container", "pod_uid", "policy", "unaccounted", "mps_pipes"):
        _check(name, _is_text(getattr(identity, name)))
    _check("generation", _counts(identity.generation, (1 << 64) - 1))
    _check("created", isinstance(identity.created, int | float) and 0 <= identity.created < _LATEST)
    _check("policy", identity.policy.upper() in layout.Policy.__members__)
    _check("backend", identity.backend in BACKENDS)
    _check("priority", _counts(identity.priority, 1))
    _check("frame_ms", _counts(identity.frame_ms, MAX_FRAME_MS))
    _check("lease", _counts(lease.deadline, _LATEST * 10**9) and _counts(lease.cores_bp, layout.FULL_CORES))
    _check("lease", lease.memory_bytes is None or _counts(lease.memory_bytes, (1 << 63) - 1))
    for share in devices:
        _check("uuid", _is_text(share.uuid))
        uuid_bytes(share.uuid)
        _check("index", _counts(share.index, _MAX_INDEX))
        _check("memory_bytes", share.memory_bytes is None or _counts(share.memory_bytes, (1 << 63) - 1))
        _check("cores_bp", _counts(share.cores_bp, layout.FULL_CORES))
        _check("guarantee_bp", _counts(share.guarantee_bp, layout.FULL_CORES))
        _check("context_bytes", _counts(share.context_bytes, (1 << 63) - 1))
    return identity


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    value.encode()  # a lone surrogate is JSON, but nothing that can be shown; a ValueError like the others
    return True


def _counts(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _check(field: str, good: bool) -> None:
    if not good:
        raise ValueError(f"{field}: out of range, or of another type")


def rewrite(path: Path, identity: Identity) -> None:
    """Replace slice.json of a slice directory, whole or not at all. Raises HostError."""
    partial = path / f".slice.json.{os.getpid()}"
    try:
        partial.write_text(json.dumps(asdict(identity)) + "\n")
        partial.rename(path / "slice.json")
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise HostError(f"{path}/slice.json: cannot be written: {error.strerror}") from error
