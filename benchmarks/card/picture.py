"""A time series as SVG: what each slice got, second by second, and what it was asked to get.

Drawn by hand so that nothing needs installing. Colours have contrast on white and on black, the background is
transparent, every line carries its name, and dashes say what was asked for where colour alone would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 130, 30, 36
COLOURS = ("#2f81f7", "#d9730d", "#2da44e", "#a475f9")
GREY = "#808080"


@dataclass(frozen=True)
class Series:
    """One slice: its name, percent asked for, percent given in each second."""

    name: str
    asked: float | None
    given: Sequence[float]


def _x(second: float, seconds: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * second / max(seconds, 1)


def _y(percent: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(percent, 100) / 100)


def _axes(seconds: int) -> list[str]:
    marks = []
    for percent in range(0, 101, 25):
        y = _y(percent)
        marks.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GREY}" '
            f'stroke-opacity="0.35"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent}</text>'
        )
    step = max(1, seconds // 10)
    for second in range(0, seconds + 1, step):
        marks.append(
            f'<text x="{_x(second, seconds):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{second}</text>'
        )
    return [*marks, f'<text x="{WIDTH - RIGHT + 8}" y="{HEIGHT - 16}">seconds</text>']


def _line(index: int, series: Series, seconds: int, label_y: float) -> list[str]:
    colour = COLOURS[index % len(COLOURS)]
    points = " ".join(f"{_x(at + 0.5, seconds):.1f},{_y(one):.1f}" for at, one in enumerate(series.given))
    drawn = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>']
    if series.asked is not None:
        y = _y(series.asked)
        drawn.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" '
            'stroke-dasharray="5 4"/>'
        )
    asked = "" if series.asked is None else f" ({series.asked:g})"
    label = escape(series.name + asked)
    return [*drawn, f'<text x="{WIDTH - RIGHT + 8}" y="{label_y:.1f}" style="fill:{colour}">{label}</text>']


def draw(title: str, series: Sequence[Series]) -> str:
    """The whole picture."""
    seconds = max((len(one.given) for one in series), default=0)
    body = [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>', *_axes(seconds)]
    for index, one in enumerate(series):
        body += _line(index, one, seconds, TOP + 14 + 18 * index)
    style = f"text {{ font: 12px sans-serif; fill: {GREY} }}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )
