"""Finished rows on disk: one JSON object a line, appended whole, so a run can be cut off at any point.

A row is named by its part and its name; the last line of a name is the one that counts, and a row that is
measured again replaces it, in one step. A line that was cut short by a crash is skipped: its row is measured
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """The rows of one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._path = directory / "rows.jsonl"
        self._rows: dict[tuple[str, str], Record] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                self._load(line)

    def _load(self, line: str) -> None:
        try:
            record = json.loads(line)
            self._rows[record["part"], record["row"]] = record
        except (ValueError, KeyError, TypeError):
            return

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._rows

    def get(self, part: str, row: str) -> Record | None:
        """The row, if it was measured."""
        return self._rows.get((part, row))

    def of(self, part: str) -> Iterator[Record]:
        """The rows of a part, in the order in which they were first measured."""
        return (record for (of, _), record in self._rows.items() if of == part)

    def add(self, record: Record) -> None:
        """Write one finished row down; it is on disk when this returns."""
        key = record["part"], record["row"]
        replaces, self._rows[key] = key in self._rows, record
        self._replace() if replaces else self._append(record)

    def _replace(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(json.dumps(record) + "\n" for record in self._rows.values()))
        fresh.replace(self._path)

    def _append(self, record: Record) -> None:
        before = self._path.read_bytes() if self._path.exists() else b""
        torn = before != b"" and not before.endswith(b"\n")
        with self._path.open("a") as file:
            file.write(("\n" if torn else "") + json.dumps(record) + "\n")
