"""Rules of style that pictures and pages share.

Everything takes the ink of the page around it, so it can be read in light and dark themes; all
other colours are those of the palette.  There are no ids, and all rules are below classes of ours,
so that any number of pictures can be put into one page.
"""

from __future__ import annotations

from chexpoint.palette import (
    CHECKPOINT,
    DARK,
    FAILED,
    GREY,
    HERE,
    LIGHT,
    SKY,
    VERMILION,
    VERSION_COLOURS,
)

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
.chex-tree .ring {{ fill: none; stroke: {CHECKPOINT.colour}; stroke-width: 2; }}
.chex-tree .here {{ fill: none; stroke: {HERE.colour}; stroke-width: 2.4; }}
.chex-tree .cross {{ fill: none; stroke: {FAILED.colour}; stroke-width: 2.2;
  stroke-linecap: round; }}
.chex-tree .line {{ fill: none; stroke-width: 2.2; }}
.chex-tree .shared {{ fill: none; stroke: {GREY}; }}
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
.chex-view th, .chex-view td {{ text-align: left !important; vertical-align: top;
  padding: 3px 12px 3px 4px; background: none; color: inherit; border: none;
  border-bottom: 1px solid {_SOFT.format(0.35)}; }}
.chex-view tr {{ background: none !important; }}
.chex-view td.number, .chex-view th.number {{ text-align: right !important;
  white-space: nowrap; }}
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
.chex-view table.sides img {{ max-width: 100%; background: {LIGHT[1]}; }}
.chex-view .old {{ background: {VERMILION}3d; }}
.chex-view .new {{ background: {SKY}42; }}
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
