"""Writes docs/coverage.md: `python -m limiter.docs > docs/coverage.md`, from the root of the source tree.

A test compares the page with what this prints, so it says what the hook lists say. It needs a C compiler and
CUDA's headers. What a hooked function is charged or paced as is said in the tables here; one that is new in a
list and not yet in them is called by its family in harmless.py.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from limiter import coverage
from limiter.coverage import Coverage, HookList
from limiter.harmless import FAMILIES
from limiter.headers import name_of

_CHARGED = {
    "a buffer: whole pages of 2 MiB; up to 1 MiB, several in one block": "cuMemAlloc",
    "a buffer, with its rows padded as the driver pads them": "cuMemAllocPitch",
    "managed memory, in full, wherever its pages are": "cuMemAllocManaged",
    "its pool, by what the pool has reserved": "cuMemAllocAsync cuMemAllocFromPoolAsync",
    "gives back": "cuMemFree cuMemFreeAsync cuArrayDestroy cuMipmappedArrayDestroy cuIpcCloseMemHandle "
    "cuDestroyExternalMemory cuModuleUnload cuLibraryUnload cuGraphExecDestroy cuDeviceGraphMemTrim",
    "a pool: known from here on": "cuMemPoolCreate cuDeviceGetDefaultMemPool cuDeviceGetMemPool "
    "cuMemGetDefaultMemPool cuMemGetMemPool",
    "a pool: what it has reserved is read again": "cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolSetAttribute",
    "physical memory, once for each handle; the host's is free": "cuMemCreate",
    "keeps physical memory while it is mapped": "cuMemMap cuMemUnmap",
    "a reference to physical memory": "cuMemRelease cuMemRetainAllocationHandle",
    "physical memory stays charged while a descriptor of it is open anywhere": "cuMemExportToShareableHandle",
    "siblings find out by the handle who pays": "cuIpcGetMemHandle",
    "another process's buffer, unless one of the same slice pays": "cuIpcOpenMemHandle",
    "another API's memory, by the size that is imported": "cuImportExternalMemory",
    "another process's stream-ordered memory": "cuMemPoolImportPointer",
    "another process's physical memory, unless one of the same slice pays": "cuMemImportFromShareableHandle",
    "a user more of a context that is charged": "cuCtxAttach",
    "a context": "cuDevicePrimaryCtxRetain cuCtxCreate cuGLCtxCreate cuVDPAUCtxCreate",
    "the primary context, of which it is a part": "cuGreenCtxCreate cuCtxFromGreenCtx",
    "gives the context back, and all that was taken in it": "cuDevicePrimaryCtxRelease "
    "cuDevicePrimaryCtxReset cuCtxDestroy cuCtxDetach cuGreenCtxDestroy",
    "an array": "cuArrayCreate cuArray3DCreate",
    "an array with its levels": "cuMipmappedArrayCreate",
    "a module's variables, as read from its image; of less than 1 MiB nothing": "cuModuleLoad "
    "cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary",
    "a library's variables, when it is loaded": "cuLibraryLoadData cuLibraryLoadFromFile",
    "keeps physical memory until the sparse array is destroyed": "cuMemMapArrayAsync",
    "memory of a graph: nothing before it is launched": "cuGraphAddMemAllocNode cuGraphAddNode",
    "a graph: what its allocation nodes need is read, and charged where it is uploaded at once": (
        "cuGraphInstantiate cuGraphInstantiateWithFlags cuGraphInstantiateWithParams"
    ),
    "what the graphs of a card have in reserve": "cuGraphUpload",
    "the stack, heap or print buffer of kernels, where raised": "cuCtxSetLimit",
}
_SHARED = {
    "an object that spans several cards": "cuMulticastCreate",
    "a descriptor for DMA, which keeps memory that is freed": "cuMemGetHandleForAddressRange",
    "all that a checkpointed process held, on another card": "cuCheckpointProcessRestore",
}
_CODE = {
    "code": "cuLibraryGetModule",
    "a function, loaded when it is asked for": "cuModuleGetFunction cuKernelGetFunction cuFuncLoad "
    "cuLibraryGetUnifiedFunction",
    "an array of a module": "cuModuleGetGlobal cuLibraryGetGlobal cuLibraryGetManaged",
    "the driver's hidden functions, by tables": "cuGetExportTable",
    "any function, by its name": "cuGetProcAddress",
}
_PACED = {
    "one kernel": "cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchKernel cuLaunchKernelEx "
    "cuLaunchCooperativeKernel",
    "one kernel on several cards, as one on each": "cuLaunchCooperativeKernelMultiDevice",
    "the graph, with the graphs that it launches from the card; its memory is charged": "cuGraphLaunch",
    "a wait: what the card did meanwhile is measured": "cuStreamSynchronize cuCtxSynchronize "
    "cuEventSynchronize",
    "the beginning of a capture: what is measured ends before it": "cuStreamBeginCapture "
    "cuStreamBeginCaptureToGraph",
    "the end of a stream: it is asked nothing afterwards": "cuStreamDestroy",
    "a fill": "cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32 cuMemsetD8Async "
    "cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async",
    "the slice's limit, and what is left of it": "cuMemGetInfo",
    "the slice's limit": "cuDeviceTotalMem",
}
WHAT = {
    name: text
    for table in (_CHARGED, _SHARED, _CODE, _PACED)
    for text, names in table.items()
    for name in names.split()
}

_HEAD = """# Coverage

<!-- Written by `python -m limiter.docs`; a test compares. -->

What the limiter does about each function of the CUDA driver. The functions are those of `cuda.h`,
`cudaTypedefs.h` and the headers for OpenGL, EGL and VDPAU of CUDA {cuda}; those of CUDA 12 are among them. A
test fails when a header knows a function that is not here.

{total} functions, {symbols} symbols with their versions and stream variants:

- {hooked} functions are **hooked**: charged, given back, paced, or answered with the slice's numbers;
- {counted} take memory, or open a way to it, and are only **counted** or, with
  `weir run --unaccounted refuse`, **refused**;
- {harmless} are **harmless**, each for the reason of its family.
"""

_COUNTED = """
## Counted, or refused

What these take is not in the ledger. Each call that is let through is counted in
`weir_unaccounted_calls_total`; the bytes show within seconds in `weir_memory_unaccounted_bytes`, where NVML
can be asked, and count against the limit. With `weir run --unaccounted refuse` such a call fails with the
error that its list says, one line on stderr names it once in a process, and
`weir_alloc_denied_total{reason="policy"}` counts it. `weir doctor` says what living slices have met.
"""

_TAIL = """
## Work and memory without a call

- **Graphs launched from the card, kernels launched by kernels** are part of the launch that holds them: its
  end is theirs, so their time is measured and charged with it.
- **Code that a first launch loads** shows as unaccounted bytes once NVML has shown them.
- **Functions got from `cuGetExportTable`** are not seen. The tables are undocumented and change with the
  driver; cudart keeps state of its context in such tables and loads code through them, and others, for
  tools, can allocate and launch. Without them no program that uses cudart starts, so they are counted and
  never refused. What is taken that way shows in NVML.
- **A static binary, a driver that is mapped without the dynamic linker, `ioctl` on the device file** are not
  seen by a library that is preloaded: such a process holds memory and has no slot (`weir doctor`).
- **OpenGL, Vulkan and the video engines** are not CUDA: NVML's figure of the card has what they hold, and
  nothing paces them.
- **Copies** run beside kernels. A slice that only copies is not held back, and slows its neighbours by the
  bandwidth that it takes.
"""


def page(found: Coverage) -> str:
    """The whole of docs/coverage.md."""
    names = {name_of(symbol) for symbol in found.symbols}
    hooked = {name_of(symbol) for one in found.hooks if not one.counted for symbol in one.symbols}
    counted = {name_of(symbol) for one in found.hooks if one.counted for symbol in one.symbols} - hooked
    numbers = {"cuda": found.cuda, "total": len(names), "symbols": len(found.symbols), "hooked": len(hooked)}
    numbers |= {"counted": len(counted), "harmless": len(names - hooked - counted)}
    parts = [_HEAD.format(**numbers), "\n## Hooked\n"]
    parts += [_hooks(one) for one in found.hooks if not one.counted]
    parts.append(_COUNTED)
    parts += [_hooks(one) for one in found.hooks if one.counted]
    parts.append("\n## Harmless\n\n| family | why | functions |\n| --- | --- | --- |\n")
    for family in found.families:
        if passing := found.passing(family):
            parts.append(f"| {family.title} | {family.reason} | {_code(passing)} |\n")
    return "".join([*parts, _TAIL])


def _hooks(one: HookList) -> str:
    """A list of hooks: what they are for, and their symbols."""
    rows: dict[str, list[str]] = defaultdict(list)
    for symbol in one.symbols:
        rows[_purpose(name_of(symbol))].append(symbol)
    table = [f"| {what} | {_code(symbols)} |\n" for what, symbols in rows.items()]
    return f"\n{one.what}\n\n| what | symbols |\n| --- | --- |\n{''.join(table)}"


def _purpose(name: str) -> str:
    """What a function is charged or paced as; of one that only might have been hooked, its family."""
    families = [family.title.lower() for family in FAMILIES if name in family.functions]
    return WHAT.get(name) or "".join(families)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(compiler: Sequence[str]) -> None:
    """Print the page."""
    sys.stdout.write(page(coverage.read(compiler)))


if __name__ == "__main__":
    import hatch_build  # beside this package in the source tree, the only place where a page can be written

    main([*hatch_build.compiler(), *hatch_build.include_flags()])
