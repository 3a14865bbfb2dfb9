"""Holds device memory that others made, or that only a descriptor keeps, until it is refused or has 1.5 GiB.

    python benchmarks/shared_ways.py imported

As memory_ways.py, and with the same line at the end. A second process, started by this one and in the same
slice, makes the memory in steps of 64 MiB, hands each over and lets go of it (but for pools, whose importer
must be the first to let go). Needs nothing but libcuda: it knows nothing of Weir."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from memory_ways import (
    CEILING,
    DEVICE,
    PINNED,
    STEP,
    Location,
    PhysicalProperties,
    PoolProperties,
    RefusedError,
    call,
)

DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
HANDLE = c_ubyte * 64


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = (("bytes", HANDLE),)


Handed = tuple[bytes, list[int]]  # what crosses: bytes, and descriptors


def exported() -> tuple[int, c_uint64]:
    """A descriptor of new physical memory, and its handle."""
    handle, descriptor = c_uint64(), c_int()
    properties = PhysicalProperties(type=PINNED, handles=DESCRIPTOR, location=Location(DEVICE, 0))
    call("cuMemCreate", byref(handle), c_size_t(STEP), byref(properties), c_uint64(0))
    call("cuMemExportToShareableHandle", byref(descriptor), handle, c_int(DESCRIPTOR), c_uint64(0))
    return descriptor.value, handle


def make_imported() -> tuple[Handed, Callable[[], None]]:
    descriptor, handle = exported()

    def let_go() -> None:
        os.close(descriptor)
        call("cuMemRelease", handle)

    return (b"descriptor", [descriptor]), let_go


def take_imported(handed: Handed) -> None:
    [descriptor] = handed[1]
    try:
        call("cuMemImportFromShareableHandle", byref(c_uint64()), c_void_p(descriptor), c_int(DESCRIPTOR))
    finally:
        os.close(descriptor)


def make_opened() -> tuple[Handed, Callable[[], None]]:
    pointer, handle = c_uint64(), IpcHandle()
    call("cuMemAlloc_v2", byref(pointer), c_size_t(STEP))
    call("cuIpcGetMemHandle", byref(handle), pointer)
    return (bytes(handle.bytes), []), lambda: call("cuMemFree_v2", pointer)


def take_opened(handed: Handed) -> None:
    call("cuIpcOpenMemHandle_v2", byref(c_uint64()), IpcHandle(HANDLE(*handed[0])), c_uint(1))


def make_pool_opened() -> tuple[Handed, Callable[[], None]]:
    pool, descriptor, pointer, data = c_void_p(), c_int(), c_uint64(), HANDLE()
    properties = PoolProperties(type=PINNED, handles=DESCRIPTOR, location=Location(DEVICE, 0))
    call("cuMemPoolCreate", byref(pool), byref(properties))
    call("cuMemPoolExportToShareableHandle", byref(descriptor), pool, c_int(DESCRIPTOR), c_uint64(0))
    call("cuMemAllocFromPoolAsync", byref(pointer), c_size_t(STEP), pool, c_void_p())
    call("cuCtxSynchronize")
    call("cuMemPoolExportPointer", byref(data), pointer)
    return (bytes(data), [descriptor.value]), lambda: os.close(descriptor.value)


def take_pool_opened(handed: Handed) -> None:
    pool, [descriptor] = c_void_p(), handed[1]
    try:
        arguments = (byref(pool), c_void_p(descriptor), c_int(DESCRIPTOR), c_uint64(0))
        call("cuMemPoolImportFromShareableHandle", *arguments)
        call("cuMemPoolImportPointer", byref(c_uint64()), pool, byref(HANDLE(*handed[0])))
    finally:
        os.close(descriptor)


MAKERS = {"imported": make_imported, "opened": make_opened, "pool-opened": make_pool_opened}
TAKERS = {"imported": take_imported, "opened": take_opened, "pool-opened": take_pool_opened}
WAYS = ("descriptors", *MAKERS)


def keep_descriptor() -> None:
    """The descriptor keeps what the handle gave up."""
    _, handle = exported()
    call("cuMemRelease", handle)


def open_card(way: str) -> None:
    """Physical memory needs no context."""
    context = c_void_p()
    call("cuInit", c_uint(0))
    if way not in ("descriptors", "imported"):
        call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        call("cuCtxSetCurrent", context)


def serve(way: str, link: socket.socket) -> None:
    """The maker: one step for each message, until there is nobody."""
    open_card(way)
    while link.recv(16):
        try:
            (data, descriptors), let_go = MAKERS[way]()
        except RefusedError as error:
            link.send(b"!" + str(error).encode())
            continue
        socket.send_fds(link, [b"=" + data], descriptors)
        if link.recv(16):
            let_go()
            link.send(b"done")


def take_from(way: str, link: socket.socket) -> None:
    """One step."""
    link.send(b"more")
    data, descriptors, _, _ = socket.recv_fds(link, 128, 1)
    if data[:1] != b"=":
        raise RefusedError(data[1:].decode())
    TAKERS[way]((data[1:], descriptors))
    link.send(b"taken")
    link.recv(16)


def take_all(way: str, step: Callable[[], None]) -> None:
    """Take, tell, hold."""
    taken, refused = 0, None
    open_card(way)
    try:
        while taken < CEILING:
            step()
            taken += STEP
    except RefusedError as error:
        refused = str(error)
    print(json.dumps({"taken": taken, "refused": refused, "pid": os.getpid()}), flush=True)
    sys.stdin.read()


def main() -> None:
    """Start the maker, where the way needs one."""
    if len(sys.argv) == 3:
        serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
        return
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit(f"way: {' '.join(sys.argv[1:])}: not allowed; one of {', '.join(WAYS)}")
    way = sys.argv[1]
    if way == "descriptors":
        take_all(way, keep_descriptor)
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    command = [sys.executable, __file__, way, str(number)]
    with subprocess.Popen(command, pass_fds=[number]):
        theirs.close()
        take_all(way, lambda: take_from(way, ours))
        ours.close()


if __name__ == "__main__":
    main()
