"""Takes device memory in one way, in steps of about 64 MiB, until it is refused or has 1.5 GiB.

    python benchmarks/memory_ways.py array

Prints one JSON line (`taken` bytes that were asked for and given, `refused` the driver's name for its
answer, null where everything was given, `pid`), then keeps what it has until its standard input ends, so
that whoever reads can ask NVML about it. Needs nothing but libcuda: it knows nothing of Weir. It takes no
more than 1.5 GiB."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p

STEP = 64 << 20
CEILING = 3 << 29
FLOAT, PINNED, DEVICE, READ_WRITE, ATTACH_GLOBAL = 0x20, 1, 1, 3, 1


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver, as the loader finds it."""
    return ctypes.CDLL("libcuda.so.1")


class RefusedError(Exception):
    """The driver's name for what it answered."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint))


class Array3dDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = (
        *(("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)),
        *(("format", c_int), ("channels", c_uint), ("flags", c_uint)),
    )


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = (
        *(("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p)),
        *(("most", c_size_t), ("usage", c_ushort), ("reserved", c_ubyte * 54)),
    )


class PhysicalProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        *(("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p)),
        ("flags", c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


class AllocationNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = (
        *(("pool", PoolProperties), ("access", c_void_p), ("accesses", c_size_t)),
        *(("bytes", c_size_t), ("pointer", c_uint64)),
    )


def call(name: str, *arguments: object) -> None:
    """Call the driver. Raises RefusedError."""
    result = getattr(driver(), name)(*arguments)
    if result:
        text = c_char_p()
        driver().cuGetErrorName(result, byref(text))
        raise RefusedError((text.value or b"?").decode())


def plain(size: int = STEP) -> int:
    call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(size))
    return size


def just_above() -> int:
    """One byte above 2 MiB each: the card gives 4 MiB."""
    return sum(plain((2 << 20) + 1) for _ in range(16))


def pitch() -> int:
    call(
        "cuMemAllocPitch_v2", byref(c_uint64()), byref(c_size_t()), c_size_t(8192), c_size_t(8192), c_uint(4)
    )
    return STEP


def managed() -> int:
    pointer = c_uint64()
    call("cuMemAllocManaged", byref(pointer), c_size_t(STEP), c_uint(ATTACH_GLOBAL))
    call("cuMemsetD8_v2", pointer, c_ubyte(1), c_size_t(STEP))
    return STEP


def stream_ordered() -> int:
    call("cuMemAllocAsync", byref(c_uint64()), c_size_t(STEP), c_void_p())
    return STEP


def own_pool() -> int:
    pool = c_void_p()
    properties = PoolProperties(type=PINNED, location=Location(DEVICE, 0))
    call("cuMemPoolCreate", byref(pool), byref(properties))
    call("cuMemAllocFromPoolAsync", byref(c_uint64()), c_size_t(STEP), pool, c_void_p())
    return STEP


def physical() -> c_uint64:
    handle = c_uint64()
    properties = PhysicalProperties(type=PINNED, location=Location(DEVICE, 0))
    call("cuMemCreate", byref(handle), c_size_t(STEP), byref(properties), c_uint64(0))
    return handle


def handles() -> int:
    physical()
    return STEP


def mapped_and_released() -> int:
    """The mapping keeps what the handle gave up."""
    handle, address = physical(), c_uint64()
    call("cuMemAddressReserve", byref(address), c_size_t(STEP), c_size_t(0), c_uint64(0), c_uint64(0))
    call("cuMemMap", address, c_size_t(STEP), c_size_t(0), handle, c_uint64(0))
    access = Access(Location(DEVICE, 0), READ_WRITE)
    call("cuMemSetAccess", address, c_size_t(STEP), byref(access), c_size_t(1))
    call("cuMemRelease", handle)
    return STEP


def array() -> int:
    call("cuArrayCreate_v2", byref(c_void_p()), byref(ArrayDescriptor(2048, 2048, FLOAT, 4)))
    return STEP


def array_3d() -> int:
    call("cuArray3DCreate_v2", byref(c_void_p()), byref(Array3dDescriptor(256, 256, 64, FLOAT, 4, 0)))
    return STEP


def mipmap() -> int:
    descriptor = Array3dDescriptor(2048, 2048, 0, FLOAT, 4, 0)
    call("cuMipmappedArrayCreate", byref(c_void_p()), byref(descriptor), c_uint(12))
    return STEP * 4 // 3


def instantiate(graph: c_void_p) -> c_void_p:
    ready = c_void_p()
    call("cuGraphInstantiateWithFlags", byref(ready), graph, c_uint64(0))
    return ready


def graph_with_node() -> c_void_p:
    graph, node = c_void_p(), c_void_p()
    parameters = AllocationNode(pool=PoolProperties(type=PINNED, location=Location(DEVICE, 0)), bytes=STEP)
    call("cuGraphCreate", byref(graph), c_uint(0))
    call("cuGraphAddMemAllocNode", byref(node), graph, c_void_p(), c_size_t(0), byref(parameters))
    return instantiate(graph)


def graph_node() -> int:
    call("cuGraphLaunch", graph_with_node(), c_void_p())
    call("cuCtxSynchronize")
    return STEP


def graph_upload() -> int:
    """Nodes without a launch. On an H200 graphs share their memory until launched, whatever the stream."""
    stream = c_void_p()
    call("cuStreamCreate", byref(stream), c_uint(1))
    call("cuGraphUpload", graph_with_node(), stream)
    call("cuCtxSynchronize")
    return STEP


def graph_capture() -> int:
    """An allocation that a stream captures becomes a node."""
    stream, graph = c_void_p(), c_void_p()
    call("cuStreamCreate", byref(stream), c_uint(1))
    call("cuStreamBeginCapture_v2", stream, c_int(2))
    call("cuMemAllocAsync", byref(c_uint64()), c_size_t(STEP), stream)
    call("cuStreamEndCapture", stream, byref(graph))
    call("cuGraphLaunch", instantiate(graph), stream)
    call("cuCtxSynchronize")
    return STEP


def module() -> int:
    text = f".version 6.0\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b8 held[{STEP}];\n"
    call("cuModuleLoadData", byref(c_void_p()), c_char_p(text.encode()))
    return STEP


def contexts() -> int:
    """A context of its own each time; its size is the card's, 518 MiB on an H200."""
    call("cuCtxCreate_v2", byref(c_void_p()), c_uint(0), c_int(0))
    return 518 << 20


WAYS: dict[str, Callable[[], int]] = {
    "plain": plain,
    "just-above": just_above,
    "pitch": pitch,
    "managed": managed,
    "stream-ordered": stream_ordered,
    "own-pool": own_pool,
    "handles": handles,
    "mapped-and-released": mapped_and_released,
    "array": array,
    "array-3d": array_3d,
    "mipmap": mipmap,
    "graph-node": graph_node,
    "graph-upload": graph_upload,
    "graph-capture": graph_capture,
    "module": module,
    "contexts": contexts,
}


def main() -> None:
    """Take, tell, hold."""
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit(f"way: {' '.join(sys.argv[1:])}: not allowed; one of {', '.join(WAYS)}")
    context, taken, refused = c_void_p(), 0, None
    call("cuInit", c_uint(0))
    call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
    call("cuCtxSetCurrent", context)
    try:
        while taken < CEILING:
            taken += WAYS[sys.argv[1]]()
    except RefusedError as error:
        refused = str(error)
    print(json.dumps({"taken": taken, "refused": refused, "pid": os.getpid()}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
