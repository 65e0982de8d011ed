"""Colours and rules of style that pictures and pages share.

Everything takes the ink of the page around it, so it can be read in light and dark themes.  All
other colours are of middle lightness and stand out on both (at least 3 to 1).  There are no ids,
and all rules are below classes of ours, so that any number of pictures can be put into one page.
"""

from __future__ import annotations

VERSION_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b87a00", "#3a93c9")
"""After Okabe and Ito, who chose them for colour-blind eyes; the n-th version takes one in turn."""

LIGHT, DARK = ("#1f2328", "#ffffff"), ("#e6edf3", "#0d1117")
"""Ink and paper where a theme is ours to choose."""

_LINES = "\n".join(f".chex-tree .v{i} {{ stroke: {c}; }}" for i, c in enumerate(VERSION_COLOURS))

TREE_RULES = f"""
.chex-tree {{ color: var(--jp-content-font-color1, inherit); }}
.chex-tree text {{ font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: currentColor; }}
.chex-tree .small {{ font-size: 9px; }}
.chex-tree .faint {{ fill-opacity: 0.75; }}
.chex-tree .node {{ stroke: currentColor; stroke-width: 1; }}
.chex-tree .root {{ fill: currentColor; }}
.chex-tree .chain {{ fill: none; stroke: currentColor; stroke-width: 1; }}
.chex-tree .bundle {{ fill: currentColor; fill-opacity: 0.3; stroke: currentColor; }}
.chex-tree .ring {{ fill: none; stroke: currentColor; stroke-width: 1.6; }}
.chex-tree .here {{ fill: none; stroke: #d81b60; stroke-width: 2.4; }}
.chex-tree .cross {{ fill: none; stroke: #d81b60; stroke-width: 2.2; stroke-linecap: round; }}
.chex-tree .line {{ fill: none; stroke-width: 2.2; }}
.chex-tree .shared {{ fill: none; stroke: #8c8c8c; }}
.chex-tree .lead {{ fill: none; stroke-width: 1.4; stroke-dasharray: 2 3; }}
{_LINES}
svg:root.chex-tree, .chex-tree.chex-light {{ color: {LIGHT[0]}; background: {LIGHT[1]}; }}
@media (prefers-color-scheme: dark) {{
svg:root.chex-tree {{ color: {DARK[0]}; background: {DARK[1]}; }}
}}
svg:root.chex-tree.chex-light {{ color: {LIGHT[0]}; background: {LIGHT[1]}; }}
.chex-tree.chex-dark, svg:root.chex-tree.chex-dark {{ color: {DARK[0]}; background: {DARK[1]}; }}
"""

_SOFT = "rgba(127, 127, 127, {})"

PAGE_RULES = f"""
.chex-view {{ color: var(--jp-content-font-color1, inherit); }}
.chex-view table {{ border-collapse: collapse; font-size: 13px; margin: 0; table-layout: auto;
  color: inherit; }}
.chex-view th, .chex-view td {{ text-align: left; vertical-align: top; padding: 3px 12px 3px 4px;
  background: none; color: inherit; border: none;
  border-bottom: 1px solid {_SOFT.format(0.35)}; }}
.chex-view tr {{ background: none !important; }}
.chex-view td.number, .chex-view th.number {{ text-align: right; white-space: nowrap; }}
.chex-view pre {{ margin: 0; padding: 0; background: none; color: inherit; font-size: 12px;
  white-space: pre-wrap; overflow-wrap: anywhere; }}
.chex-view code, .chex-view pre {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.chex-view .faint {{ opacity: 0.75; }}
.chex-view .scroll {{ overflow-x: auto; }}
.chex-view .cell {{ margin: 10px 0; border: 1px solid {_SOFT.format(0.35)}; border-radius: 4px; }}
.chex-view .cell > .head {{ padding: 4px 8px; background: {_SOFT.format(0.12)}; }}
.chex-view .cell > .part {{ padding: 4px 8px; }}
.chex-view table.sides {{ table-layout: fixed; width: 100%; font-size: 12px; }}
.chex-view table.sides td {{ padding: 0 4px; border: none; }}
.chex-view table.sides col.mark {{ width: 1.4em; }}
.chex-view table.sides img {{ max-width: 100%; background: #ffffff; }}
.chex-view .old {{ background: rgba(213, 94, 0, 0.24); }}
.chex-view .new {{ background: rgba(0, 128, 200, 0.26); }}
.chex-view .old b, .chex-view .new b {{ font-weight: bold; text-decoration: underline; }}
"""

_PAGE = f"""
:root {{ color-scheme: light dark; }}
body {{ margin: 24px; font: 14px/1.45 system-ui, sans-serif;
  color: {LIGHT[0]}; background: {LIGHT[1]}; }}
h1 {{ font-size: 20px; }}
h2 {{ font-size: 16px; }}
@media (prefers-color-scheme: dark) {{
body {{ color: {DARK[0]}; background: {DARK[1]}; }}
}}
"""

PAGE_START = '<!DOCTYPE html>\n<html class="chex-page"'
"""How every page of ours begins, so that it is known again."""


def html_page(title: str, body: str) -> str:
    """Return a page that needs nothing else.

    Parameters
    ----------
    title
        As text of XML: escaped.
    body
        As HTML.
    """
    return (
        f'{PAGE_START} lang="en">\n<head><meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>{_PAGE}</style></head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def html_view(body: str) -> str:
    """Return HTML with the rules of style it needs, for a page of others."""
    return f'<div class="chex-view"><style>{PAGE_RULES}</style>\n{body}</div>'
