"""The environment of a simulated machine, and the names that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.machines import simulate
from weir.errors import HostError, UsageError
from weir.simulation import simulated_machine


@pytest.mark.parametrize("spec", ["h200", "a100-40g", "t4", "h200:1", "t4:16", "h200:2,mig=1g.18gb*7"])
def test_a_known_machine_is_an_environment_and_a_library(spec: str) -> None:
    machine = simulate(spec, {})
    assert machine.name == spec
    assert machine.environment["SIMGPU_MACHINE"] == spec
    assert Path(machine.environment["LD_LIBRARY_PATH"]) == machine.nvml_library.parent
    assert machine.nvml_library.exists()


@pytest.mark.parametrize("spec", ["", "h300", "H200", "h200:0", "h200:17", "h200:x", "h200:", "h200,x"])
def test_an_unknown_machine_is_refused_with_what_is_allowed(spec: str) -> None:
    shown = spec or "''"
    with pytest.raises(UsageError, match=f"--simulate: {shown}: not allowed; one of h200, a100-40g, t4"):
        simulate(spec, {})


def test_the_simulated_driver_comes_before_what_is_there() -> None:
    libraries = str(simulate("h200", {}).nvml_library.parent)
    path = simulate("h200", {"LD_LIBRARY_PATH": "/opt/a::/opt/b"}).environment["LD_LIBRARY_PATH"]
    assert path == f"{libraries}:/opt/a:/opt/b"
    again = simulate("h200", {"LD_LIBRARY_PATH": path}).environment["LD_LIBRARY_PATH"]
    assert again == path, "a machine inside a machine does not lengthen the path"


def test_a_state_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "SIMGPU_STATE" not in simulate("h200", {"SIMGPU_STATE": "/dev/shm/mine"}).environment
    assert "SIMGPU_STATE" not in simulate("h200", {}).environment, "the driver's own default holds"


def test_a_driver_that_was_not_compiled_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"libcuda\.so\.1: not there; `make native`"):
        simulate("h200", {}, libraries=tmp_path)


def test_weir_finds_the_simulator_by_its_entry_point() -> None:
    assert simulated_machine("t4").environment["SIMGPU_MACHINE"] == "t4"
