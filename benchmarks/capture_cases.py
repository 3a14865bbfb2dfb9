"""The calls of which capture_calls.py asks whether they disturb a capture: what the limiter makes or hooks.

Each uses things of the first card that are there already, or that are made for it before the capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TypeVar

from memory_ways import (
    DEVICE,
    FLOAT,
    PINNED,
    AllocationNode,
    ArrayDescriptor,
    Location,
    PhysicalProperties,
    PoolProperties,
    call,
)

MIB = 1 << 20
SMALL, LARGE = ArrayDescriptor(64, 64, FLOAT, 1), ArrayDescriptor(1024, 1024, FLOAT, 1)
PTX = b".version 6.0\n.target sm_52\n.address_size 64\n.visible .entry weir_nothing()\n{\nret;\n}\n"
LARGE_PTX = b".version 6.0\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b8 held[4194304];\n"
STREAM, MADE = object(), object()  # arguments: the situation's stream, and what was made before the capture
OUT = byref((c_uint64 * 64)())  # where answers go that nobody reads
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """Calls in a row, of which the first that fails is the answer."""

    label: str
    steps: tuple[tuple[str, tuple[object, ...]], ...]
    makes: Callable[[], object] | None = None  # before the capture
    legacy: bool = False  # by its nature it waits for the legacy stream, or might

    @property
    def on_stream(self) -> bool:
        return any(argument is STREAM for _, arguments in self.steps for argument in arguments)


def one(symbol: str, *arguments: object, label: str = "", **more: object) -> Case:
    """A case of one call, called by its name without version."""
    return Case(label or symbol.removesuffix("_v2"), ((symbol, arguments),), **more)  # type: ignore[arg-type]


def made(thing: T, symbol: str, *arguments: object) -> T:
    call(symbol, byref(thing), *arguments)  # type: ignore[arg-type]
    return thing


class Card:
    """What the cases use of the first card, made once."""

    def __init__(self) -> None:
        self.context, self.node = c_void_p(), c_void_p()
        call("cuInit", c_uint(0))
        call("cuDevicePrimaryCtxRetain", byref(self.context), c_int(0))
        call("cuCtxSetCurrent", self.context)
        self.here = Location(DEVICE, 0)
        self.pool_properties = PoolProperties(type=PINNED, location=self.here)
        self.properties = PhysicalProperties(type=PINNED, location=self.here)
        self.other, self.pool = self.stream(), made(c_void_p(), "cuDeviceGetMemPool", c_int(0))
        module = made(c_void_p(), "cuModuleLoadData", c_char_p(PTX))
        self.kernel = made(c_void_p(), "cuModuleGetFunction", module, c_char_p(b"weir_nothing"))
        self.buffer, self.physical = self.plain(), self.handle()
        self.graph = made(c_void_p(), "cuGraphCreate", c_uint(0))
        call("cuGraphAddEmptyNode", byref(c_void_p()), self.graph, c_void_p(), c_size_t(0))
        self.ready = self.instantiated()
        self.memory_graph, self.memory_ready = self._graph_that_allocates()
        self.first, self.last = self.event(), self.event()
        for event in (self.first, self.last):
            call("cuEventRecord", event, self.other)
        call("cuStreamSynchronize", self.other)

    def _graph_that_allocates(self) -> tuple[c_void_p, c_void_p]:
        graph, ready = made(c_void_p(), "cuGraphCreate", c_uint(0)), c_void_p()
        parameters = AllocationNode(pool=self.pool_properties, bytes=4 * MIB)
        none = (c_void_p(), c_size_t(0))
        call("cuGraphAddMemAllocNode", byref(self.node), graph, *none, byref(parameters))
        after, pointer = (byref(self.node), c_size_t(1)), c_uint64(parameters.pointer)
        call("cuGraphAddMemFreeNode", byref(c_void_p()), graph, *after, pointer)
        call("cuGraphInstantiateWithFlags", byref(ready), graph, c_uint64(0))
        call("cuGraphLaunch", ready, self.other)
        return graph, ready

    def stream(self, flags: int = 1) -> c_void_p:
        return made(c_void_p(), "cuStreamCreate", c_uint(flags))

    def event(self) -> c_void_p:
        return made(c_void_p(), "cuEventCreate", c_uint(0))

    def plain(self) -> c_uint64:
        return made(c_uint64(), "cuMemAlloc_v2", c_size_t(MIB))

    def handle(self) -> c_uint64:
        size, properties = c_size_t(2 * MIB), byref(self.properties)
        return made(c_uint64(), "cuMemCreate", size, properties, c_uint64(0))

    def own_pool(self) -> c_void_p:
        return made(c_void_p(), "cuMemPoolCreate", byref(self.pool_properties))

    def of_pool(self) -> c_uint64:
        pointer = made(c_uint64(), "cuMemAllocAsync", c_size_t(MIB), self.other)
        call("cuStreamSynchronize", self.other)
        return pointer

    def small(self) -> c_void_p:
        return made(c_void_p(), "cuArrayCreate_v2", byref(SMALL))

    def large(self) -> c_void_p:
        return made(c_void_p(), "cuArrayCreate_v2", byref(LARGE))

    def module(self) -> c_void_p:
        return made(c_void_p(), "cuModuleLoadData", c_char_p(PTX))

    def instantiated(self) -> c_void_p:
        return made(c_void_p(), "cuGraphInstantiateWithFlags", self.graph, c_uint64(0))


def of_streams(card: Card) -> Iterator[Case]:
    """Calls on a stream."""
    null = c_void_p()
    for symbol in ("IsCapturing", "GetCtx", "GetDevice", "GetId", "GetFlags", "GetPriority"):
        yield one(f"cuStream{symbol}", STREAM, OUT)
    yield one("cuStreamGetCaptureInfo_v2", STREAM, OUT, *(null,) * 4, label="cuStreamGetCaptureInfo_v2")
    yield one("cuStreamQuery", STREAM)
    yield one("cuStreamSynchronize", STREAM)
    yield one("cuEventRecord", MADE, STREAM, makes=card.event)
    yield one("cuLaunchKernel", card.kernel, *(c_uint(1),) * 6, c_uint(0), STREAM, null, null)
    yield one("cuMemsetD8Async", card.buffer, c_ubyte(0), c_size_t(64), STREAM)
    yield one("cuMemAllocAsync", OUT, c_size_t(MIB), STREAM)
    yield one("cuMemFreeAsync", MADE, STREAM, makes=card.of_pool, label="cuMemFreeAsync (from a pool)")
    yield one("cuGraphLaunch", card.ready, STREAM)
    yield one("cuGraphLaunch", card.memory_ready, STREAM, label="cuGraphLaunch (allocates)")
    yield one("cuGraphUpload", card.ready, STREAM)
    yield one(
        "cuStreamWaitEvent", STREAM, card.first, c_uint(0), label="cuStreamWaitEvent (recorded outside)"
    )
    recorded = ("cuEventRecord", (MADE, STREAM))
    elapsed = ("cuEventElapsedTime", (byref(c_float()), card.first, MADE))
    yield Case("cuEventQuery (recorded in it)", (recorded, ("cuEventQuery", (MADE,))), card.event)
    yield Case("cuEventElapsedTime (recorded in it)", (recorded, elapsed), card.event)
    yield Case("cuEventDestroy (recorded in it)", (recorded, ("cuEventDestroy_v2", (MADE,))), card.event)


def of_events_and_graphs(card: Card) -> Iterator[Case]:
    """Calls on what may have nothing to do with the capture."""
    yield one("cuEventCreate", OUT, c_uint(0))
    yield one("cuEventDestroy_v2", MADE, makes=card.event)
    yield one("cuEventQuery", card.first)
    yield one("cuEventSynchronize", card.first)
    yield one("cuEventElapsedTime", byref(c_float()), card.first, card.last)
    yield one("cuStreamCreate", OUT, c_uint(1))
    yield one("cuStreamDestroy_v2", MADE, makes=card.stream)
    yield one("cuGraphGetNodes", card.memory_graph, c_void_p(), byref(c_size_t()))
    yield one("cuGraphNodeGetType", card.node, OUT)
    yield one("cuGraphMemAllocNodeGetParams", card.node, byref(AllocationNode()))
    yield one("cuGraphInstantiateWithFlags", OUT, card.graph, c_uint64(0), label="cuGraphInstantiate")
    yield one("cuGraphExecDestroy", MADE, makes=card.instantiated)
    yield one("cuModuleLoadData", OUT, c_char_p(PTX))
    yield one("cuModuleLoadData", OUT, c_char_p(LARGE_PTX), label="cuModuleLoadData (4 MiB)")
    yield one("cuModuleUnload", MADE, makes=card.module)


def of_contexts_and_cards(card: Card) -> Iterator[Case]:
    """Questions, and what changes a context."""
    zero, first = c_int(0), c_size_t(2 * MIB)
    pop = ("cuCtxPopCurrent_v2", (OUT,))
    retain, release = "cuDevicePrimaryCtxRetain", ("cuDevicePrimaryCtxRelease_v2", (zero,))
    yield one("cuCtxGetCurrent", OUT)
    yield one("cuCtxGetDevice", OUT)
    yield Case("cuCtxPushCurrent, cuCtxPopCurrent", (("cuCtxPushCurrent_v2", (card.context,)), pop))
    yield one("cuCtxGetLimit", OUT, zero)
    yield one("cuCtxSetLimit", c_int(1), first, label="cuCtxSetLimit (printf buffer)")
    yield one("cuCtxSynchronize", legacy=True)
    yield one("cuDeviceGetCount", OUT)
    yield one("cuDeviceGetAttribute", OUT, c_int(16), zero)
    yield one("cuDeviceGetUuid_v2", OUT, zero, label="cuDeviceGetUuid_v2")
    yield one("cuDeviceTotalMem_v2", OUT, zero)
    yield one("cuDeviceGetMemPool", OUT, zero)
    yield one("cuDeviceGetDefaultMemPool", OUT, zero)
    yield one("cuDevicePrimaryCtxGetState", zero, OUT, byref(c_int()))
    yield Case("cuDevicePrimaryCtxRetain, …Release", ((retain, (OUT, zero)), release))
    yield one("cuDeviceGetGraphMemAttribute", zero, c_int(2), OUT)
    yield one("cuDeviceGraphMemTrim", zero)
    yield one("cuMemGetInfo_v2", OUT, byref(c_size_t()), legacy=True)


def of_memory(card: Card) -> Iterator[Case]:
    """Calls that take, give back or describe memory."""
    mib, one_more = c_size_t(MIB), byref(c_size_t())
    properties, some, at = byref(card.properties), c_size_t(64), card.buffer
    yield one("cuMemPoolGetAttribute", card.pool, c_int(5), OUT)
    yield one("cuMemPoolSetAttribute", card.pool, c_int(4), byref(c_uint64(0)))
    yield one("cuMemPoolTrimTo", card.pool, c_size_t(0))
    yield one("cuMemPoolCreate", OUT, byref(card.pool_properties))
    yield one("cuMemPoolDestroy", MADE, makes=card.own_pool)
    yield one("cuMemAlloc_v2", OUT, mib, legacy=True)
    yield one("cuMemAllocManaged", OUT, mib, c_uint(1))
    yield one("cuMemAllocPitch_v2", OUT, one_more, c_size_t(512), some, c_uint(4))
    yield one("cuMemHostAlloc", OUT, c_size_t(4096), c_uint(0))
    yield one("cuMemFree_v2", MADE, makes=card.plain, legacy=True)
    yield one("cuMemFree_v2", MADE, makes=card.of_pool, label="cuMemFree (from a pool)")
    yield one("cuArrayCreate_v2", OUT, byref(SMALL), label="cuArrayCreate (small)")
    yield one("cuArrayCreate_v2", OUT, byref(LARGE), label="cuArrayCreate (large)")
    yield one("cuArrayDestroy", MADE, makes=card.small, label="cuArrayDestroy (small)", legacy=True)
    yield one("cuArrayDestroy", MADE, makes=card.large, label="cuArrayDestroy (large)")
    yield one("cuMemCreate", OUT, c_size_t(2 * MIB), properties, c_uint64(0))
    yield one("cuMemRelease", MADE, makes=card.handle)
    yield one("cuMemGetAllocationPropertiesFromHandle", OUT, card.physical)
    yield one("cuMemGetAddressRange_v2", OUT, one_more, at)
    yield one("cuPointerGetAttribute", OUT, c_int(9), at)
    yield one("cuIpcGetMemHandle", OUT, at)
    yield one("cuMemcpyHtoD_v2", at, OUT, some, legacy=True)
    yield one("cuMemsetD8_v2", at, c_ubyte(0), some, legacy=True)


CASES = (of_streams, of_events_and_graphs, of_contexts_and_cards, of_memory)
