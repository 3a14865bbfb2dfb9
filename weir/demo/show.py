"""The demo's screen while it runs: live on a terminal, a line for each step elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from weir.demo.view import Row, screen, title


class Show:
    """Shows how far the demo is. `machine` and `address` are filled in as they become known."""

    def __init__(self, console: Console, simulated: bool, why: str) -> None:
        self.simulated = simulated
        self.machine = "GPU"
        self.address = ""
        self._console = console
        self._why = why
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )
        self._said = ""

    def __enter__(self) -> Show:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def where(self) -> str:
        """The card, and whether it is a simulated one."""
        return f"simulated {self.machine}" if self.simulated else self.machine

    @property
    def head(self) -> list[RenderableType]:
        """What stands above the table."""
        lines: list[RenderableType] = [title(self.where, self.simulated)]
        if self._why:
            lines.append(Text(self._why, style="yellow"))
        if self.address:
            lines.append(Text.assemble(("metrics  ", "dim"), self.address))
        return lines

    def step(self, doing: str, done: float, rows: Sequence[Row]) -> None:
        """Show what is being done, and how much of the planned time (0 to 1) is over."""
        if self._live:
            self._live.update(screen(self.head, rows, self.where, doing, done), refresh=True)
        elif doing != self._said:
            self._console.print(f"{doing} ...")
        self._said = doing
