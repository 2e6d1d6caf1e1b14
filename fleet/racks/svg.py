"""Draw racks as an SVG that stands alone: readable on light and dark, whatever names hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from fleet.racks.picture import Picture, Row

_ROW, _SWITCH_ROW, _GAP = 22, 11, 3  # heights in px
_WIDTH, _MARGIN, _HEAD = 470, 16, 52
_NODE_X, _GPU_X, _GPU, _TEXT_X = 30, 170, 26, 292
_SHOWN = 24  # characters of a name that fit
# Two sets of eight colours that colour-blind readers tell apart (Okabe and Ito, 2008), the
# second lighter for dark backgrounds.
_LIGHT = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c564b", "#5f6a00")
_DARK = ("#4aa8e8", "#2cd3a0", "#e8a5c8", "#f5be4a", "#8fd0f5", "#b08ed0", "#c49a90", "#b9c451")
_STYLE = """
 svg{{background:#fff;font:11px ui-monospace,Menlo,Consolas,monospace}}
 text{{fill:#1f2328}} .dim{{fill:#59636e}} .title{{font-size:14px;font-weight:bold}}
 .tray{{fill:#f6f8fa;stroke:#8c959f}} .switch{{fill:#d1d9e0;stroke:#8c959f}}
 .idle{{fill:#fff;stroke:#8c959f}} .sick{{stroke:#cf222e;stroke-width:2}} .bad{{fill:#cf222e}}
 .away{{opacity:.4}} {light}
 @media (prefers-color-scheme:dark){{ svg{{background:#0d1117}} text{{fill:#e6edf3}}
 .dim{{fill:#9198a1}} .tray{{fill:#161b22;stroke:#6e7681}} .switch{{fill:#30363d;stroke:#6e7681}}
 .idle{{fill:#0d1117;stroke:#6e7681}} .sick{{stroke:#ff7b72}} .bad{{fill:#ff7b72}} {dark} }}
"""


def svg(pictures: Sequence[Picture]) -> str:
    """Draw racks side by side, with a legend of their releases below."""
    releases = sorted({name for picture in pictures for name in picture.releases})
    colours = {name: index % len(_LIGHT) for index, name in enumerate(releases)}
    tallest = max((_height(picture) for picture in pictures), default=0)
    width = max(1, len(pictures)) * _WIDTH + _MARGIN
    height = _HEAD + tallest + _MARGIN + 18 * (len(releases) + 1) + _MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{_safe(', '.join(picture.id for picture in pictures))}</title>",
        f"<style>{_style()}</style>",
    ]
    for index, picture in enumerate(pictures):
        parts.append(f'<g transform="translate({_MARGIN + index * _WIDTH} 0)">')
        parts += _rack(picture, colours)
        parts.append("</g>")
    parts += _legend(releases, colours, _HEAD + tallest + _MARGIN)
    return "\n".join([*parts, "</svg>\n"])


def _rack(picture: Picture, colours: dict[str, int]) -> Iterator[str]:
    title = f"{picture.region} {picture.id}".strip()
    yield f'<text class="title" x="0" y="22">{_safe(title)}</text>'
    yield f'<text class="dim" x="0" y="40">{_safe(picture.headline, 64)}</text>'
    y = _HEAD
    for row in picture.rows:
        if row.kind == "switch":
            yield f'<rect class="switch" x="{_NODE_X}" y="{y}" width="250" height="{_SWITCH_ROW}"/>'
            yield f'<text class="dim" x="{_TEXT_X}" y="{y + 9}">NVLink switch {row.number}</text>'
            y += _SWITCH_ROW + _GAP
        else:
            yield from _tray(row, colours, y)
            y += _ROW + _GAP


def _tray(row: Row, colours: dict[str, int], y: int) -> Iterator[str]:
    sick = " sick" if row.faults or row.kind == "missing" else ""
    says = _says(row)
    tip = "; ".join(part for part in (row.node, says, *row.faults) if part)
    yield "<g>"
    yield f"<title>{_safe(tip)}</title>"
    yield f'<text class="dim" x="0" y="{y + 15}">{row.number:02d}</text>'
    yield f'<rect class="tray{sick}" x="{_NODE_X}" y="{y}" width="250" height="{_ROW}" rx="2"/>'
    yield f'<text x="{_NODE_X + 5}" y="{y + 15}">{_safe(row.node or "no node", _SHOWN)}</text>'
    fill = f"r{colours[row.release]}" if row.release in colours else "idle"
    away = " away" if row.kind == "used" and row.standing != "serves" else ""
    for gpu in range(min(row.gpus, 4)):
        at = f'x="{_GPU_X + gpu * _GPU}" y="{y + 4}"'
        yield f'<rect class="{fill}{away}" {at} width="22" height="{_ROW - 8}" rx="2"/>'
    mark = ' class="bad"' if sick else ""
    yield f'<text{mark} x="{_TEXT_X}" y="{y + 15}">{_safe(says, _SHOWN)}</text>'
    yield "</g>"


def _says(row: Row) -> str:
    if row.kind == "missing":
        return "missing"
    if row.replica:
        state = "" if row.standing == "serves" else f" {row.standing}"
        mark = "! " if row.faults else ""
        return f"{mark}{row.replica}{state}"
    return f"! {row.faults[0]}" if row.faults else "idle"


def _legend(releases: Sequence[str], colours: dict[str, int], y: int) -> Iterator[str]:
    for index, name in enumerate(releases):
        top = y + index * 18
        yield f'<rect class="r{colours[name]}" x="{_MARGIN}" y="{top}" width="12" height="12"/>'
        yield f'<text x="{_MARGIN + 20}" y="{top + 10}">{_safe(name, 48)}</text>'
    y += len(releases) * 18 + 10
    marks = "pale: does not serve; red, !: sick or cordoned"
    yield f'<text class="dim" x="{_MARGIN}" y="{y}">{marks}</text>'


def _height(picture: Picture) -> int:
    return sum((_SWITCH_ROW if row.kind == "switch" else _ROW) + _GAP for row in picture.rows)


def _style() -> str:
    light, dark = (
        "".join(f".r{index}{{fill:{colour}}}" for index, colour in enumerate(colours))
        for colours in (_LIGHT, _DARK)
    )
    return _STYLE.format(light=light, dark=dark)


def _safe(text: str, longest: int = 200) -> str:
    """Escape what XML would read, and leave out what it may not hold at all."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return escape("".join(char if char.isprintable() else "?" for char in shown))
