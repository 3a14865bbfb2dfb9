"""Cells and tables in Markdown. What was not measured is a dash, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DASH = "\u2013"


def cell(value: float | None, digits: int = 1) -> str:
    """A figure, or a dash where there is none."""
    return DASH if value is None else f"{value:.{digits}f}"


def build(record: Mapping[str, Any]) -> str:
    """Which commit a row is of, and how long it is: rows of many days stand side by side."""
    return f"{record.get('commit') or DASH}, {record['length']}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"
