"""Pages, agents and libraries of different versions meet in one slice, also under running programs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import hatch_build
from limiter import layout
from limiter.pages import read_control
from limiter.writer import create_control

from .client import OK, OPEN, OUT_OF_MEMORY, Client, look_again
from .conftest import CONTEXT, LIBRARY, MIB, ROOT, Machine, Slice


def upgraded(path: Path) -> None:
    """The control page as a newer agent would make it: a later minor version, and longer fields."""
    header = layout.ControlHeader.from_buffer_copy(path.read_bytes())
    device = path.read_bytes()[header.header_size :]
    header.minor += 1
    header.header_size += 64
    header.device_stride += 128
    fresh = path.with_name("fresh")
    fresh.write_bytes(
        bytes(header).ljust(header.header_size, b"\xee") + device.ljust(header.device_stride, b"\xee")
    )
    fresh.rename(path)


def test_a_control_page_of_a_newer_minor_version_is_obeyed_by_a_running_program(
    machine: Machine, slice_: Slice
) -> None:
    client = Client(machine, slice_, (*OPEN, f"alloc:{100 * MIB}"), ("info", f"alloc:{100 * MIB}", "total"))
    control = slice_.path / "control"
    lowered = replace(slice_.control.devices[0], memory_limit=CONTEXT + 150 * MIB)
    control.unlink()
    create_control(control, replace(slice_.control, devices=(lowered,)))
    upgraded(control)
    look_again()
    assert client.go_on() == [OK, OUT_OF_MEMORY, OK]
    assert slice_.stats.devices[0].used == CONTEXT + 100 * MIB  # where it was charged before
    assert client.end() == 0


def test_an_agent_of_another_minor_version_replaces_the_page_and_is_obeyed(
    machine: Machine, slice_: Slice
) -> None:
    upgraded(slice_.path / "control")
    client = Client(machine, slice_, (*OPEN, f"alloc:{100 * MIB}"), ("info", f"alloc:{100 * MIB}"))
    slice_.update(memory_limit=CONTEXT + 150 * MIB)
    look_again()
    assert client.go_on() == [OK, OUT_OF_MEMORY]
    assert read_control(slice_.path / "control").devices == slice_.control.devices
    assert client.end() == 0


def test_a_stats_page_of_a_newer_minor_version_is_used_as_its_sizes_say(
    machine: Machine, slice_: Slice
) -> None:
    path = slice_.path / "rw/stats"
    header = layout.StatsHeader.from_buffer_copy(path.read_bytes())
    header.minor += 1
    for name in ("header_size", "device_stride", "slot_stride"):
        setattr(header, name, getattr(header, name) + 64)
    size = header.header_size + header.device_count * header.device_stride
    path.write_bytes(bytes(header).ljust(size + header.slot_count * header.slot_stride, b"\0"))
    clients = [Client(machine, slice_, (*OPEN, f"alloc:{100 * MIB}")) for _ in range(2)]
    assert slice_.stats.devices[0].used == 2 * (CONTEXT + 100 * MIB)
    assert [client.end() for client in clients] == [0, 0]


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """The limiter, as another version of it was built."""
    library = tmp_path / "libweir-9.so"
    artifact = next(one for one in hatch_build.ARTIFACTS if one.output.endswith(LIBRARY.name))
    flags = [flag for flag in artifact.flags if not flag.startswith("-DWEIR_VERSION")]
    command = [*hatch_build.compiler(), "-std=gnu17", *hatch_build.include_flags(), *flags]
    sources = hatch_build.expand(artifact.sources)
    command += ['-DWEIR_VERSION="9.9.9"', "-o", str(library), *map(str, sources)]
    subprocess.run(command, cwd=ROOT, check=True)
    return library


def test_two_versions_of_the_library_share_one_slice(
    machine: Machine, slice_: Slice, other_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Client(machine, slice_, (*OPEN, f"alloc:{900 * MIB}"), (f"alloc:{200 * MIB}",))
    monkeypatch.setattr("tests.limiter.conftest.LIBRARY", other_version)
    second = Client(machine, slice_, (*OPEN, f"alloc:{200 * MIB}", f"alloc:{100 * MIB}"))
    assert second.told == [OK, OK, OUT_OF_MEMORY, OK]
    assert slice_.stats.limiter_version == "9.9.9"
    assert first.go_on() == [OUT_OF_MEMORY]
    assert slice_.stats.devices[0].used == 2 * CONTEXT + 1000 * MIB
    assert (first.end(), second.end()) == (0, 0)
