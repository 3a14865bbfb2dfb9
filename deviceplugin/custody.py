"""The control pages in an agent's custody: does what it last wrote into each still stand there?

While it holds the box's lock the agent is the one writer of them: `weir set` and leases write slice.json, and
the agent puts that into the page. So whatever differs from what it wrote, or found when it took office or
first saw the slice, was written by a program with the same user ID. It is put back, counted in the page
itself, so that the next agent goes on counting, and said once for each slice.

It does not tell a forgery from before its first look (that one is put right by what slice.json promises), or
one of slice.json, which is what `weir set` writes too.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from limiter import writer
from limiter.identity import load_identity
from limiter.pages import ControlDevice, ControlPage, CorruptPageError, PageError, read_control
from limiter.slices import Observation, observe_one

_MOST_FORGERIES = 2**32 - 1
_NAMED = 4  # differences in one line

Say = Callable[[str], bool]  # whether the line was taken


def aloud(line: str) -> bool:
    """Write a line to standard error, if that takes it at once: who shares it may not hold us up."""
    if sys.stderr is None:  # closed before we started
        return False
    try:
        if not select.select([], [sys.stderr], [], 0)[1]:
            return False
        os.write(sys.stderr.fileno(), f"{line}\n".encode())
    except (OSError, ValueError):  # closed, or nobody reads it
        return False
    return True


class Custody:
    """What the agent wrote into the control pages of one box."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._kept: dict[Path, ControlPage] = {}
        self._told: dict[Path, int] = {}  # generations of slices

    def begin(self) -> None:
        """Another agent may have written since: what stands in the pages now is taken over."""
        self._kept.clear()

    def look(self, found: Sequence[Observation]) -> list[Observation]:
        """The slices as they are once every page says again what was written there."""
        self._kept = {one.path: self._kept[one.path] for one in found if one.path in self._kept}
        return [self._look_at(one) for one in found]

    def write(self, path: Path, page: ControlPage) -> None:
        """Write the control page of a slice directory, unless it is gone or spoiled. Raises OSError."""
        try:
            writer.update_control(path / "control", page)
        except PageError:
            return  # nothing was written: the next look sees to it
        except OSError:
            self._kept.pop(path, None)  # what was written half-way is nobody's forgery
            raise
        self._kept[path] = page

    def _look_at(self, one: Observation) -> Observation:
        kept = self._kept.get(one.path)
        if kept is None:
            return self._take_over(one)
        problem = _forgery(one, kept)
        if not problem:
            return one
        if _another(one.path, kept.generation):
            del self._kept[one.path]
            return replace(one, control=None)  # half of it may be the old one: the next look takes it over
        self._tell(one.path, kept.generation, problem)
        return self._put_back(one, replace(kept, forgeries=min(kept.forgeries + 1, _MOST_FORGERIES)))

    def _take_over(self, one: Observation) -> Observation:
        if one.control is not None:
            self._kept[one.path] = one.control
        elif one.torn:  # nobody else writes, so a writer died half-way, or a tenant says that one is at work
            with contextlib.suppress(PageError):
                return self._put_back(one, read_control(one.path / "control", whole=False))
        return one

    def _put_back(self, one: Observation, page: ControlPage) -> Observation:
        control = one.path / "control"
        with contextlib.suppress(OSError):  # gone meanwhile, or something that no page can take the place of
            try:
                writer.update_control(control, page)
            except PageError:
                writer.create_control(control, page)
        self._kept[one.path] = page
        again = observe_one(one.path, processes=False)
        if again and again.control and len(again.control.devices) == len(page.devices):
            return replace(again, control=page)
        return replace(one, control=None)

    def _tell(self, path: Path, generation: int, problem: str) -> None:
        if self._told.get(path) != generation and self._say(
            f"weir: slice {path.name}: its control page was changed by a program of this user: "
            f"{problem}; put back, and counted in weir_control_forgeries_total"
        ):
            self._told[path] = generation


def _forgery(one: Observation, kept: ControlPage) -> str:
    """What in a slice's control page is not as it was kept; empty where all is."""
    try:
        page = one.control or read_control(one.path / "control")  # the trouble may be another file's
    except PageError as error:
        return f"it cannot be read ({error})"
    if len(page.devices) != len(kept.devices):
        return f"it is for {len(page.devices)} cards, not {len(kept.devices)}"
    differing = list(_differences(page, kept))
    more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return ", ".join(differing[:_NAMED]) + more


def _differences(page: ControlPage, kept: ControlPage) -> Iterator[str]:
    for name in ("generation", "policy", "refuse_unknown", "forgeries"):
        found, written = getattr(page, name), getattr(kept, name)
        if found != written:
            yield f"{name} {found}, not {written}"
    for index, (now, before) in enumerate(zip(page.devices, kept.devices, strict=True)):
        if now == before:
            continue
        for field in fields(ControlDevice):
            found, written = getattr(now, field.name), getattr(before, field.name)
            if found != written:
                said = "" if field.name == "uuid" else f" {found}, not {written}"
                yield f"card {index} {field.name}{said}"


def _another(path: Path, generation: int) -> bool:
    """Whether the slice of this generation is gone. Directories appear and go whole."""
    try:
        return load_identity(path).generation != generation
    except CorruptPageError:
        return not os.path.lexists(path)
