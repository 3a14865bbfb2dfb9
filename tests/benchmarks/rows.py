"""Rows as the harness would have measured them, and a journal's lines as they lie in its file."""

from __future__ import annotations

from pathlib import Path


def row(load: str, limit: int | None, nvml: float, **more: object) -> dict[str, object]:
    name = "bare" if limit is None else limit
    made = {"part": "alone", "row": f"{load}/{name}", "load": load, "limit": limit, "nvml": nvml, "own": nvml}
    made |= {"limiter": None, "cupti": None, "rate": nvml, "clock": 1980.0, "seconds": [nvml]}
    made |= {"seconds_by": "load", "date": "D", "card": "C", "driver": "V", "length": "1 s"}
    return made | more


def journal_lines(directory: Path) -> list[str]:
    return (directory / "rows.jsonl").read_text().splitlines()
