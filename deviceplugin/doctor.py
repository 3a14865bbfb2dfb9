"""`weir doctor`: can slices be held on this host, what will and what will not be enforced, and what to do.

The questions are in findings.py. Exit code 0 if nothing failed, else 1.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from deviceplugin import findings
from deviceplugin.findings import FAIL, NOTE, OK, Finding
from limiter.slices import Observation, observe
from weir.errors import NoGpuError, UsageError, WeirError
from weir.nvml import Nvml
from weir.options import box_options
from weir.roots import box_root
from weir.simulation import open_nvml

_MARKS = {OK: ("ok  ", "green"), NOTE: ("note", "yellow"), FAIL: ("FAIL", "red")}


def examine(simulate: str | None, box: Path, driver: Callable[[str | None], Nvml]) -> list[Finding]:
    """Every finding. Raises UsageError for a machine nobody knows."""
    found = [findings.library(), findings.root(box), findings.locks()]
    seen: list[Observation] = []
    try:
        seen = observe(box)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        found.append(Finding("slices", FAIL, why, "give another directory with --root"))
    try:
        nvml = driver(simulate)
        found += findings.cards(nvml)
        found += [findings.outsiders(nvml, seen), findings.pid_namespace(simulate is not None)]
        found.append(findings.kernel_limits(nvml))
    except UsageError:
        raise
    except NoGpuError as error:
        found.append(Finding("driver", FAIL, str(error), "install the NVIDIA driver, or --simulate h200"))
    except Exception as error:  # a driver that fails is what the doctor is there to tell
        found.append(
            Finding("driver", FAIL, f"{type(error).__name__}: {error}", "look at dmesg for the driver")
        )
    return [*found, findings.mps_daemon(os.environ), *findings.agent(box, seen), *findings.slices(seen)]


def enforced(found: Sequence[Finding]) -> list[str]:
    """What a slice made now would and would not hold, one line each."""
    if any(one.state == FAIL for one in found):
        return ["nothing is enforced until the failures above are mended"]
    checked = all(one.state == OK for one in found if one.subject == "process IDs")
    return [
        "memory: enforced at calls for buffers, managed memory, pools and virtual memory, context included",
        "memory taken by calls that cannot be accounted for (docs/coverage.md): counted, or refused by "
        "weir run --unaccounted refuse",
        "memory that NVML shows beyond that: "
        + ("taken off what is left within seconds" if checked else "not enforced"),
        "GPU time: enforced at launches of kernels and graphs, and fills; no kernel is cut short",
        "programs that drop LD_PRELOAD (static, setuid, env -i): not enforced by weir run; they show above, "
        "and what they hold is taken off what their slice has left (docs/security.md)",
    ]


def lines(found: Iterable[Finding]) -> Iterable[str]:
    """The findings for a person."""
    for one in found:
        mark, colour = _MARKS[one.state]
        advice = f"  -> {one.advice}" if one.advice else ""
        yield f"{click.style(mark, fg=colour)}  {one.subject}: {one.found}{advice}"


@click.command()
@box_options
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(simulate: str | None, root: Path | None, as_json: bool) -> None:
    """Say whether slices can be held here, and what to do if not."""
    try:
        found = examine(simulate, box_root(root, simulate), open_nvml)
    except OSError as error:
        raise WeirError(f"{error.filename}: {error.strerror}") from error
    able = all(one.state != FAIL for one in found)
    if as_json:
        report = {"able": able, "findings": [asdict(one) for one in found], "enforced": enforced(found)}
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo("\n".join([*lines(found), "", *enforced(found)]))
    sys.exit(0 if able else 1)
