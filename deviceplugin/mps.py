"""NVIDIA's MPS as what holds a slice: is a daemon there, and what must a program's environment say to it?

MPS is the user's: Weir starts, stops and asks nothing of a daemon, and says when one that a slice was
started with is gone. The share is one of multiprocessors, the memory limit is one for each process; both are
fixed when a process starts (docs/decisions/backends.md). What it does not do: measure, or decide anything
about memory; the limiter does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from limiter import layout
from limiter.identity import Identity
from weir.errors import UsageError
from weir.mps import daemon_lives

PIPES = Path("/tmp/nvidia-mps")  # noqa: S108 -- the path that NVIDIA's MPS daemon uses by default
_MIB = 1 << 20
_LOOK = 1.0  # seconds; a daemon is looked for as often as the agent looks at the cards


def pipe_directory(environment: Mapping[str, str]) -> Path:
    """Where this user's programs look for a daemon."""
    return Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES)


def require_daemon(environment: Mapping[str, str], simulate: str | None) -> None:
    """Raise UsageError unless programs here would be clients of a live daemon."""
    if simulate is not None:
        raise UsageError("--backend", "mps", "weir or auto on a simulated card: no MPS daemon serves it")
    pipes = pipe_directory(environment)
    if not daemon_lives(pipes):
        raise UsageError(
            "--backend",
            "mps",
            f"it needs a live MPS daemon and none listens at {pipes}/control: start one as this user "
            "(nvidia-cuda-mps-control -d), or name its directory in CUDA_MPS_PIPE_DIRECTORY, or ask for weir",
        )


def client_environment(environment: Mapping[str, str], identity: Identity) -> dict[str, str]:
    """What makes a program of this slice a client of the daemon with the slice's limits.

    Cards are numbered as the program sees them. One share is for all of them: `weir run` has one --cores.
    """
    cores = {share.cores_bp for share in identity.devices}
    limits = [
        f"{ordinal}={-(-share.promised_bytes // _MIB)}M"
        for ordinal, share in enumerate(identity.devices)
        if share.promised_bytes is not None
    ]
    made = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe_directory(environment))}
    if min(cores) < layout.FULL_CORES:
        made["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{min(cores) / 100:g}"
    if limits:
        made["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return made


@contextmanager
def watched(identity: Identity, say: Callable[[str], None], period: float = _LOOK) -> Iterator[None]:
    """While this lasts, one line when the slice's daemon is gone, and one when there is one again.

    Programs that run keep their share for as long as the daemon's server lives; what starts now has none.
    """
    ended = threading.Event()
    pipes = Path(identity.mps_pipes)

    def look() -> None:
        lived = True
        while not ended.wait(period):
            if daemon_lives(pipes) == lived:
                continue
            lived = not lived
            if lived:
                say(f"weir: an MPS daemon listens at {pipes} again")
            else:
                say(
                    f"weir: the MPS daemon at {pipes} is gone: what starts in slice {identity.name} "
                    "now has no share of multiprocessors"
                )

    thread = threading.Thread(target=look, name="mps", daemon=True)
    if identity.mps_pipes:
        thread.start()
    try:
        yield
    finally:
        ended.set()
