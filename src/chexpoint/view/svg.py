"""The shapes that pictures of trees are made of, as SVG."""

from __future__ import annotations

from chexpoint.view.text import xml


def px(value: float) -> str:
    """Return a length with as many digits as can be seen."""
    return f"{value:.1f}".removesuffix(".0")


def written(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    """Return a text whose middle is at a height."""
    look = f' class="{style}"' if style else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    low = y + (3 if style.startswith("small") else 4)
    return f'<text{look} x="{px(x)}" y="{px(low)}"{where}>{xml(text)}</text>'


def disc(x: float, y: float, radius: float, style: str, colour: str = "") -> str:
    """Return a circle."""
    fill = f' fill="{colour}"' if colour else ""
    return f'<circle class="{style}" cx="{px(x)}" cy="{px(y)}" r="{px(radius)}"{fill}/>'


def box(x: float, y: float, width: float, height: float, style: str, corner: float = 0) -> str:
    """Return a rectangle around a middle."""
    left, top = px(x - width / 2), px(y - height / 2)
    return (
        f'<rect class="{style}" x="{left}" y="{top}" width="{px(width)}" height="{px(height)}"'
        f' rx="{px(corner)}"/>'
    )


def path(style: str, way: str, width: float = 0) -> str:
    """Return a line along a way."""
    thick = f' stroke-width="{px(width)}"' if width else ""
    return f'<path class="{style}"{thick} d="{way}"/>'


def diamond(x: float, y: float, radius: float) -> str:
    """Return the way around a diamond."""
    far = px(radius)
    return f"M{px(x - radius)} {px(y)}l{far} -{far}l{far} {far}l-{far} {far}z"


def cross(x: float, y: float, radius: float) -> str:
    """Return the way along both strokes of a cross."""
    left, top, whole = px(x - radius), px(y - radius), px(2 * radius)
    return f"M{left} {top}l{whole} {whole}m0 -{whole}l-{whole} {whole}"


def wedge(x: float, y: float) -> str:
    """Return the way around a wedge that opens to the right."""
    return f"M{px(x - 5)} {px(y)}L{px(x + 6)} {px(y - 6)}V{px(y + 6)}z"


def elbow(x1: float, y1: float, x2: float, y2: float, shift: float = 0) -> str:
    """Return the way down from one point and then right to another.

    Parameters
    ----------
    shift
        How far to the side, so that several lines can go the same way.
    """
    if y1 == y2:
        return f"M{px(x1)} {px(y1 + shift)}H{px(x2)}"
    x, y = x1 - shift, y2 + shift
    turn = min(7.0, abs(y2 - y1) / 2, abs(x2 - x1) / 2)
    return f"M{px(x)} {px(y1)}V{px(y - turn)}q0 {px(turn)} {px(turn)} {px(turn)}H{px(x2)}"
