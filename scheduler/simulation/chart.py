"""Charts of waits over time as SVG, drawn by hand: three lanes, one line a scheduler."""

from collections.abc import Mapping
from html import escape
from math import log10

from metering.core.facts import LANES

from .series import Series

WIDTH, HEIGHT = 900, 200
LEFT, TOP, GAP, BOTTOM, RIGHT = 70, 60, 40, 50, 20
# Decades of the wait axis: 1 ms to 1,000 s. Shorter waits lie on its foot.
FIRST, LAST = 0, 6
COLOURS = {
    "fairlane": "#0b6e4f",
    "fixed-priority": "#c1121f",
    "fifo": "#6c757d",
    "priority-heap": "#1d4ed8",
    "class-floors": "#d97706",
    "least-loaded": "#7c3aed",
    "prefix-affinity": "#0891b2",
    "pinned": "#111827",
}


def wait_chart(title: str, duration_s: float, series: Mapping[str, Series]) -> str:
    """The 95th percentile of waits by moment of arrival, in logarithmic ms."""
    height = TOP + len(LANES) * (HEIGHT + GAP) + BOTTOM
    width = LEFT + WIDTH + RIGHT
    colours = {name: COLOURS.get(name, "#000000") for name in series}
    heading = f"{escape(title)}: time in the queue, 95th percentile by moment of arrival"
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="16">{heading}</text>',
        *_legend(colours),
    ]
    for lane, name in enumerate(LANES):
        top = TOP + lane * (HEIGHT + GAP)
        parts += _frame(name, top, duration_s)
        for scheduler, lanes in series.items():
            parts.append(_line(lanes[lane], top, duration_s, colours[scheduler]))
    foot = TOP + len(LANES) * (HEIGHT + GAP)
    parts.append(f'<text x="{LEFT + WIDTH / 2}" y="{foot}" text-anchor="middle">seconds</text>')
    return "\n".join([*parts, "</svg>", ""])


def _legend(colours: Mapping[str, str]) -> list[str]:
    parts = []
    for place, (name, colour) in enumerate(colours.items()):
        x = LEFT + place * 150
        parts.append(f'<rect x="{x}" y="34" width="18" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 24}" y="41">{escape(name)}</text>')
    return parts


def _frame(name: str, top: int, duration_s: float) -> list[str]:
    parts = [f'<text x="{LEFT + 6}" y="{top + 16}" font-weight="bold">{name}</text>']
    for decade in range(FIRST, LAST + 1):
        y = top + _height(10.0**decade)
        label = f"{10**decade} ms" if decade < 3 else f"{10 ** (decade - 3)} s"
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for part in range(7):
        x = LEFT + WIDTH * part / 6
        mark = f"{duration_s * part / 6:.0f}"
        parts.append(
            f'<text x="{x:.1f}" y="{top + HEIGHT + 16}" text-anchor="middle">{mark}</text>'
        )
    parts.append(
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" '
        'fill="none" stroke="#9ca3af"/>'
    )
    return parts


def _height(wait_ms: float) -> float:
    """Distance from the top of a panel."""
    part = (log10(max(wait_ms, 10.0**FIRST)) - FIRST) / (LAST - FIRST)
    return HEIGHT * (1 - min(part, 1.0))


def _line(points: list[tuple[float, float]], top: int, duration_s: float, colour: str) -> str:
    span = duration_s or 1.0
    path = " ".join(
        f"{LEFT + WIDTH * at / span:.1f},{top + _height(wait):.1f}" for at, wait in points
    )
    if len(points) == 1:
        # A line to itself, which round ends make a dot.
        path = f"{path} {path}"
    style = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-linecap="round"'
    return f'<polyline points="{path}" {style}/>'
