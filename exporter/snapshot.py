"""What the exporter knows at one moment: frozen values that collectors make and renderers read.

    SlicesReading     from the slice directories: containers, their slices (one for each GPU), region states
    GpusReading       from NVML: cards, and who holds memory on them
    SliceState        one slice after accounting: its claims, what the exporter integrated, and NVML's word
    Health            one collector: did it work, how long did it take, when did it last work
    Snapshot          all of these together: what a page is rendered from

Bytes are bytes, times are seconds, shares are ratios from 0 to 1. Numbers that come from a stats page are the
tenant's claims. None means that nobody can say, and becomes no series; it never becomes a 0. Nothing here
reads a file, asks a card or knows a metric's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from limiter.belonging import Origin
from weir.nvml import Gpu, GpuProcess, GpuReading

SliceKey = tuple[str, str, str, int, int]
REGION_STATES = ("live", "stale", "orphan", "corrupt", "version_mismatch")


@dataclass(frozen=True, slots=True)
class Counters:
    """What only grows while a slice's generation lives. Seconds of GPU time are seconds of residency."""

    gpu_seconds: float = 0.0
    throttled_seconds: float = 0.0
    periods: int = 0
    throttled_periods: int = 0
    launches: int = 0
    allocations: int = 0
    frees: int = 0
    denied_limit: int = 0
    denied_device: int = 0
    denied_policy: int = 0
    denied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Claims:
    """One slice as its two pages say: `index` is the card's ordinal inside the container."""

    index: int
    gpu_uuid: str
    memory_used: int
    memory_peak: int
    memory_managed: int = 0
    memory_limit: int | None = None
    memory_requested: int | None = None
    core_limit: float | None = None  # in force now; None: no cap
    core_requested: float | None = None  # what was asked; a burst slice may be lent more
    last_kernel: float | None = None  # Unix time; None: no launch yet
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True)
class Leased:
    """Limits of each of a container's slices, in force where they are the smaller ones. None: not lowered."""

    ends: float  # Unix time
    memory: int | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """One slice directory. `generation` is minted at each start: fresh counters come with it."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    generation: int
    started: float  # Unix time
    policy: str
    slices: tuple[Claims, ...]
    pids: tuple[int, ...] = ()  # live processes, in their own PID namespace
    limiter_version: str = ""  # empty until a process has loaded the limiter
    page_version: str = ""
    heartbeat: float | None = None  # Unix time
    reaped: int = 0  # slots taken back from dead processes
    forgeries: int = 0  # times the agent put back what others wrote into the control page
    priority: int = 1
    frame: float | None = None  # the longest frame of time slots that it agrees to; None: any
    backend: str = "weir"  # who holds its share of the card
    lease: Leased | None = None  # None: none, or one that has ended
    daemon_lives: bool | None = None  # the MPS daemon it was started with; None: none, or nobody can tell
    agent_lives: bool | None = None  # somebody renews what the control page says; None: nobody can tell
    path: str = ""  # of its directory
    supervisor: int = 0  # process ID; 0: none lives
    unaccounted_calls: dict[str, int] = field(default_factory=dict)  # let through, by what they were for
    hook_errors: dict[str, int] = field(default_factory=dict)  # what the limiter failed at: memory, launch

    @property
    def key(self) -> tuple[str, str, str]:
        """What its series are called by."""
        return (self.namespace, self.pod, self.container)


@dataclass(frozen=True, slots=True)
class SlicesReading:
    """All slice directories under one root."""

    containers: tuple[Container, ...] = ()
    regions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REGION_STATES, 0))
    torn_reads: int = 0


@dataclass(frozen=True, slots=True)
class GpuState:
    """One card as NVML says."""

    gpu: Gpu
    reading: GpuReading
    processes: tuple[GpuProcess, ...] = ()
    outside: tuple[int, ...] | None = None  # of these, those of no slice; None: nobody can tell

    @property
    def outside_bytes(self) -> int | None:
        """What processes of no slice hold."""
        outside = self.outside
        return None if outside is None else sum(one.used for one in self.processes if one.pid in outside)


@dataclass(frozen=True, slots=True)
class GpusReading:
    """All cards of the host."""

    driver_version: str = ""
    cuda_version: str = ""
    gpus: tuple[GpuState, ...] = ()
    origins: Mapping[int, Origin] | None = None  # of every process on a card; None: IDs mean nothing here


@dataclass(frozen=True, slots=True)
class SliceState:
    """One slice after accounting (see accounting.py)."""

    container: Container
    claims: Claims
    counters: Counters  # never less than at an earlier tick of the same generation
    used_ratio: float | None = None  # share of the card's time since the tick before; None at the first
    throttled_ratio: float | None = None  # part of that time in which launches were held back
    overrun_seconds: float = 0.0
    overrun_byte_seconds: float = 0.0
    driver_used: int | None = None  # NVML's bytes for the slice's processes
    strays: tuple[int, ...] | None = None  # of these, those without a slot; None: nobody can tell
    unaccounted: int | None = None  # bytes that NVML shows and the ledger does not
    ratio_error: float | None = None  # (used - limit) / limit

    @property
    def key(self) -> SliceKey:
        """What it is known by from one tick to the next; a new generation is a new slice."""
        return (*self.container.key, self.container.generation, self.claims.index)

    @property
    def started(self) -> float:
        """When its container started, in Unix time."""
        return self.container.started

    @property
    def in_use(self) -> int:
        """Bytes held, by the larger word: the ledger's, or NVML's with the managed ones it leaves out."""
        return max(self.claims.memory_used, (self.driver_used or 0) + self.claims.memory_managed)


@dataclass(frozen=True, slots=True)
class Health:
    """One collector's state. `last_success` is Unix time, 0 before the first."""

    collector: str
    success: bool = False
    duration: float = 0.0
    last_success: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment. A part that is older than the limit is empty here."""

    time: float
    slices: tuple[SliceState, ...] = ()
    containers: tuple[Container, ...] = ()
    regions: dict[str, int] | None = None  # None: the slice directories could not be read
    torn_reads: int = 0
    gpus: GpusReading = field(default_factory=GpusReading)
    health: tuple[Health, ...] = ()

    def slices_on(self, gpu_uuid: str) -> list[SliceState]:
        """The slices of one card."""
        return [state for state in self.slices if state.claims.gpu_uuid == gpu_uuid]
