"""How the page of a replay looks, and the little that it does.

Everything can be read without the script; what it adds is finding versions by name, and opening
and closing all cells.  Filtering by status needs no script.
"""

from __future__ import annotations

import base64
import hashlib

from chexpoint.palette import DARK, GREY, LIGHT, LOOKS, ORANGE, SAME, SKY, VERMILION
from chexpoint.view.replay_ansi import COLOURS

_STATUSES = "\n".join(
    f".{look.style} {{ --status: {look.colour}; }}\n"
    f'.square.{look.style}::before {{ content: "{look.sign}" / ""; }}\n'
    f"body:has(#only-{look.style}:not(:checked)) .version.{look.style} {{ display: none; }}"
    for look in LOOKS.values()
)

_LIGHT_INKS = (
    "#1f2328",
    "#b3261e",
    "#116329",
    "#7a5200",
    "#0550ae",
    "#8250df",
    "#0b6b75",
    "#57606a",
)
_DARK_INKS = (
    "#8b949e",
    "#ff8a80",
    "#7ee2a8",
    "#e3b341",
    "#79c0ff",
    "#d2a8ff",
    "#76e3ea",
    "#e6edf3",
)


def _inks(inks: tuple[str, ...]) -> str:
    pairs = zip(COLOURS, inks, strict=True)
    return "\n".join(f".ansi-{name} {{ color: {ink}; }}" for name, ink in pairs)


PAGE_STYLE = f"""
:root {{ color-scheme: light dark; --ink: {LIGHT[0]}; --paper: {LIGHT[1]}; --faint: #59636e;
  --line: #d1d9e0; --card: #f6f8fa; --marked: #fff1b8; --old: {VERMILION}29;
  --old-mark: {VERMILION}66; --new: {SKY}2e; --new-mark: {SKY}70;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{_inks(_LIGHT_INKS)}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: {DARK[0]}; --paper: {DARK[1]}; --faint: #9aa4af; --line: #30363d; --card: #151b23;
  --marked: #4d3d00; }}
{_inks(_DARK_INKS)}
}}
* {{ box-sizing: border-box; }}
html {{ scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }}
body {{ margin: 0; overflow-x: clip; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }}
header, main, footer {{ max-width: 1180px; margin: 0 auto; padding: 0 24px; }}
header {{ padding-top: 32px; }}
a {{ color: inherit; text-underline-offset: 3px; }}
:focus-visible {{ outline: 3px solid {SKY}; outline-offset: 2px; border-radius: 3px; }}
.skip {{ position: absolute; left: -9999px; }}
.skip:focus {{ left: 16px; top: 8px; background: var(--paper); padding: 6px 12px; z-index: 9; }}
h1 {{ font-size: 30px; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }}
h2 {{ font-size: 20px; margin: 48px 0 12px; }}
h3 {{ font-size: 16px; margin: 28px 0 8px; }}
h4 {{ font-size: 14px; margin: 20px 0 8px; }}
h5 {{ font-size: 12px; font-weight: 600; color: var(--faint); margin: 0 0 4px; }}
h2 small, h3 small {{ color: var(--faint); font-weight: 400; font-size: 14px; margin-left: 4px; }}
p {{ margin: 8px 0; }}
.faint, .facts, figcaption {{ color: var(--faint); font-size: 13px; }}
code, pre {{ font-family: var(--mono); font-size: 12.5px; }}
pre {{ margin: 8px 0; padding: 10px 12px; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--card); border: 1px solid var(--line); }}
pre.output, pre.traceback {{ background: none; max-height: 420px; overflow: auto; }}
pre.source {{ border-left: 3px solid {SKY}; }}
.scroll {{ overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; padding: 4px; }}
.tree {{ max-height: 640px; overflow-y: auto; }}
figure {{ margin: 0; }}
figcaption {{ margin: 8px 0; }}
.banner {{ border: 1px solid {ORANGE}; border-left-width: 6px; border-radius: 8px;
  padding: 10px 16px; margin: 20px 0 0; }}

.verdict {{ display: flex; gap: 18px; align-items: center; margin-top: 12px; }}
.verdict > .big {{ flex: none; width: 60px; height: 60px; border-radius: 50%; display: grid;
  place-items: center; font-size: 32px; font-weight: 700; color: {LIGHT[1]};
  background: var(--status); print-color-adjust: exact; }}
.over-line {{ color: var(--faint); margin: 0; overflow-wrap: anywhere; }}
.under-line {{ color: var(--faint); margin: 4px 0 0; }}
nav {{ margin: 20px 0 0; border-block: 1px solid var(--line); padding: 8px 0; }}
nav ul {{ display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; margin: 0; padding: 0; }}

.cards {{ display: grid; grid-template-columns: 1fr 1.7fr 1fr; gap: 16px; margin-top: 24px; }}
.card {{ border: 1px solid var(--line); border-radius: 10px; padding: 14px 18px;
  background: var(--card); min-width: 0; }}
.card h2 {{ font-size: 13px; font-weight: 600; color: var(--faint); margin: 0; }}
.card .number {{ font-size: 30px; font-weight: 650; line-height: 1.2; margin: 6px 0 8px; }}
.card .number small {{ display: block; font-size: 14px; margin-top: 4px; font-weight: 400;
  color: var(--faint); }}
.card p {{ font-size: 13px; margin: 8px 0 0; }}
.track {{ display: block; height: 10px; border-radius: 5px; overflow: hidden; flex: 1;
  background: var(--line); print-color-adjust: exact; }}
.track i {{ display: block; height: 100%; background: {GREY}; border-radius: 5px;
  print-color-adjust: exact; }}
.now .track i, .card > .track i {{ background: {SAME.colour}; }}
.bars {{ margin: 8px 0 0; display: grid; gap: 8px; }}
.bars dt {{ font-size: 13px; }}
.bars dt small {{ color: var(--faint); }}
.bars dd {{ margin: 2px 0 0; display: flex; align-items: center; gap: 10px; }}
.bars b {{ min-width: 4.6em; text-align: right; font-variant-numeric: tabular-nums;
  font-weight: 500; }}
.bars .now b {{ font-weight: 700; }}

.status {{ white-space: nowrap; font-weight: 600; }}
.status .sign, .legend .sign {{ display: inline-grid; place-items: center; width: 20px;
  height: 20px; border-radius: 5px; background: var(--status); color: {LIGHT[1]}; font-weight: 700;
  font-size: 13px; line-height: 1; margin-right: 3px; print-color-adjust: exact; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 8px 0; padding: 0; border: 0;
  font-size: 13px; color: inherit; align-items: center; }}
.legend label {{ display: inline-flex; align-items: center; gap: 4px; cursor: pointer; }}
.legend [type="checkbox"] {{ margin: 0; accent-color: {SKY}; width: 16px; height: 16px; }}
.todo > .sign, .todo .sign {{ background: none !important; color: inherit !important;
  border: 1.5px dashed var(--status); }}
.legend .tools {{ margin: 0 0 0 auto; cursor: auto; }}
.chart text.small {{ font-size: 11px; }}
.tools {{ display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 8px 0; }}
.tools[hidden] {{ display: none; }}
.tools button, .tools input {{ font: inherit; font-size: 13px; color: inherit; padding: 5px 12px;
  background: var(--card); border: 1px solid var(--faint); border-radius: 6px; min-width: 0; }}
.tools button {{ cursor: pointer; }}

.versions {{ list-style: none; margin: 12px 0; padding: 0; border-top: 1px solid var(--line); }}
.version {{ display: grid; grid-template-columns: 8em minmax(7em, 17em) 1fr auto;
  gap: 2px 14px; padding: 8px 4px; border-bottom: 1px solid var(--line); align-items: center; }}
.version[hidden] {{ display: none; }}
.version .label {{ font-weight: 600; overflow-wrap: anywhere; }}
.version .label small {{ display: block; font-weight: 400; color: var(--faint); }}
.version .time {{ text-align: right; font-variant-numeric: tabular-nums; }}
.version .time small {{ color: var(--faint); display: inline-block; min-width: 9em; }}
.version .why {{ grid-column: 2 / -1; color: var(--faint); font-size: 13px;
  overflow-wrap: anywhere; }}
.strip {{ display: flex; flex-wrap: wrap; gap: 4px; }}
.square {{ position: relative; width: 20px; height: 20px; border-radius: 4px; display: grid;
  place-items: center; font-size: 12px; font-weight: 700; line-height: 1; color: {LIGHT[1]};
  background: var(--status); text-decoration: none; print-color-adjust: exact; }}
.square.excused {{ background: none; border: 2px solid var(--status); color: var(--ink); }}
.square.todo {{ background: none; border: 1.5px dashed var(--status); color: inherit; }}
a.square:hover {{ outline: 2px solid var(--ink); outline-offset: 1px; }}
.square:focus-visible::after {{ content: attr(title); position: absolute; top: 26px; left: 0;
  z-index: 5; width: max-content; max-width: 240px; padding: 4px 8px; border-radius: 4px;
  font-size: 12px; font-weight: 400; line-height: 1.4; color: var(--paper);
  background: var(--ink); }}
{_STATUSES}

details.cell {{ border: 1px solid var(--line); border-radius: 8px; margin: 8px 0; }}
details.cell .status {{ margin-right: 10px; }}
details.group > summary {{ margin: 28px 0 8px; cursor: pointer; }}
details.group > summary h3 {{ display: inline; }}
details.group > details.cell {{ content-visibility: auto; contain-intrinsic-height: auto 42px; }}
details.cell > summary {{ padding: 8px 14px; cursor: pointer; overflow-wrap: anywhere; }}
details.cell[open] > summary {{ border-bottom: 1px solid var(--line); background: var(--card);
  border-radius: 8px 8px 0 0; }}
details.cell > summary code {{ color: var(--faint); margin-left: 4px; }}
.body {{ padding: 4px 14px 14px; scroll-margin-top: 56px; }}
.body:target {{ box-shadow: inset 4px 0 0 {SKY}; border-radius: 0 0 8px 8px; }}
.reasons {{ margin: 8px 0; padding-left: 20px; font-weight: 500; }}
details.fold {{ margin: 12px 0 0; }}
summary {{ overflow-wrap: anywhere; }}
.sides {{ display: grid; grid-template-columns: 1fr 1fr; gap: 16px; margin: 8px 0; }}
.sides > div {{ min-width: 0; }}
img {{ max-width: 100%; height: auto; background: {LIGHT[1]}; border: 1px solid var(--line);
  border-radius: 4px; display: block; }}
iframe {{ width: 100%; border: 1px solid var(--line); border-radius: 4px; background: {LIGHT[1]};
  color-scheme: light; resize: vertical; }}
.over {{ font-size: 13px; display: block; cursor: pointer; }}
.over:has(:checked) + .pictures {{ isolation: isolate; filter: invert(1); }}
.over:has(:checked) + .pictures > div {{ grid-area: 1 / 1; }}
.over:has(:checked) + .pictures h5 {{ visibility: hidden; }}
.over:has(:checked) + .pictures > div + div {{ mix-blend-mode: difference; }}
.over:has(:checked) + .pictures img {{ border: 0; border-radius: 0; }}
table.lines {{ width: 100%; table-layout: fixed; border-collapse: collapse; margin: 8px 0;
  font: 12.5px/1.5 var(--mono); }}
table.lines th {{ font: 600 12px system-ui, sans-serif; color: var(--faint); text-align: left;
  padding: 0 8px 4px; }}
table.lines td {{ padding: 0 8px; white-space: pre-wrap; overflow-wrap: anywhere;
  vertical-align: top; }}
table.lines td + td {{ border-left: 8px solid var(--paper); }}
table.lines .old {{ background: var(--old); }}
table.lines .new {{ background: var(--new); }}
table.lines .old::before {{ content: "- "; }}
table.lines .new::before {{ content: "+ "; }}
table.lines .alike td::before {{ content: "  "; }}
table.lines .old b {{ background: var(--old-mark); border-radius: 2px; }}
table.lines .new b {{ background: var(--new-mark); border-radius: 2px; }}
table.lines .gap td {{ color: var(--faint); font-family: system-ui, sans-serif; }}
.ansi-bold {{ font-weight: 700; }}
.ansi-marked {{ background: var(--marked); }}
.facts-table {{ display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0; }}
.facts-table dt {{ color: var(--faint); }}
.facts-table dd {{ margin: 0; overflow-wrap: anywhere; }}
.packages {{ columns: 15em; font-family: var(--mono); font-size: 12.5px; list-style: none;
  padding: 0; }}
.notes li {{ margin: 4px 0; overflow-wrap: anywhere; }}
.narrow {{ display: none; }}
footer {{ margin-top: 56px; padding-bottom: 40px; color: var(--faint); font-size: 13px; }}

@media (max-width: 760px) {{
header, main, footer {{ padding: 0 16px; }}
header {{ padding-top: 20px; }}
h1 {{ font-size: 24px; }}
h2 {{ margin-top: 36px; }}
.verdict {{ gap: 14px; }}
.verdict > .big {{ width: 48px; height: 48px; font-size: 26px; }}
.cards {{ grid-template-columns: 1fr; }}
.version {{ grid-template-columns: 1fr auto; }}
.version .label, .version .strip, .version .why {{ grid-column: 1 / -1; }}
.version .time {{ grid-area: 1 / 2; }}
.version .time small {{ min-width: 0; margin-left: 4px; }}
.strip {{ margin: 4px 0; }}
.sides {{ grid-template-columns: 1fr; gap: 10px; }}
.over:has(:checked) + .pictures {{ gap: 0; }}
table.lines th {{ display: none; }}
table.lines td {{ display: block; }}
table.lines td + td {{ border-left: 0; }}
table.lines .alike td + td, table.lines td.none {{ display: none; }}
.body {{ padding: 4px 10px 10px; }}
.wide {{ display: none; }}
.narrow {{ display: block; }}
}}
@media (prefers-reduced-motion: reduce) {{ html {{ scroll-behavior: auto; }} }}
@media print {{
body {{ font-size: 11pt; color: {LIGHT[0]}; background: {LIGHT[1]}; }}
nav, .tools, .legend .tools, .skip, .over, .legend input {{ display: none; }}
header, main, footer {{ max-width: none; padding: 0; }}
.scroll, .tree, pre.output, pre.traceback {{ overflow: visible; max-height: none; }}
svg {{ max-width: 100%; height: auto; }}
.version, .card, h2, h3, h4 {{ break-inside: avoid; break-after: avoid; }}
details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""

SCRIPT = """
(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const unfold = () => {
    const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!at) return;
    for (let up = at; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    at.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => all("details").forEach((one) => { one.open = true; }));
  all(".tools").forEach((one) => { one.hidden = false; });
  all("[data-fold]").forEach((button) => button.addEventListener("click", () => {
    all("details.cell").forEach((one) => { one.open = button.dataset.fold === "open"; });
  }));
  const find = document.getElementById("find");
  if (find) find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    all("#versions ~ details").forEach((one) => { one.open = true; });
    all(".version").forEach((row) => {
      row.hidden = !row.querySelector(".label").textContent.toLowerCase().includes(wanted);
    });
  });
  unfold();
})();
"""


def script_digest() -> str:
    """Return what a policy calls our script, so that no other one is run."""
    made = hashlib.sha256(SCRIPT.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(made).decode('ascii')}"


PAGE_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    f"script-src '{script_digest()}'; base-uri 'none'; form-action 'none'"
)
"""Nothing is loaded from anywhere, and nothing runs but our script."""
