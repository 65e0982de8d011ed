"""Every verb, option and magic is documented, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import chexpoint.lineage
from chexpoint import errors
from chexpoint.cli.capabilities import PROBES
from chexpoint.cli.completion import Verb, verbs_of
from chexpoint.cli.main import build_parser
from chexpoint.config import SETTINGS
from chexpoint.model import EffectKind, InputKind

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINKED_PAGES = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"]

CLI = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
MAGICS = (DOCS / "reference" / "magics.md").read_text(encoding="utf-8")
ENVIRONMENT = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
CONFIGURATION = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
LINEAGE = (DOCS / "reference" / "lineage.md").read_text(encoding="utf-8")
TOUR = (DOCS / "explanation" / "tour.md").read_text(encoding="utf-8")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def source_text() -> str:
    """Return all source code as one string."""
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))
    )


def section_of(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one of its rank."""
    rank = heading.split(maxsplit=1)[0]
    return text.split(f"\n{heading}\n")[1].split(f"\n{rank} ", maxsplit=1)[0]


def first_column(section: str) -> set[str]:
    """Return the words in backquotes that the rows of a section's tables start with."""
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def names_of_magics(text: str) -> set[str]:
    """Return the magics that a text names after ``%``, or defines."""
    return set(re.findall(r"(?:%|def )(chex_\w+)", text))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page, as its headings make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("verb", verbs_of(build_parser()), ids=lambda verb: verb.name)
def test_verb_is_documented_with_its_options(verb: Verb) -> None:
    assert f"## chex {verb.name}\n" in CLI
    section = CLI.split(f"## chex {verb.name}\n")[1].split("\n## ")[0]
    for argument in verb.arguments:
        for flag in argument.flags:
            assert flag in {"-h", "--help"} or f"`{flag}" in section
        assert all(f"`{choice}`" in section for choice in argument.choices)


def test_no_verb_is_documented_that_is_not_there() -> None:
    known = {verb.name for verb in verbs_of(build_parser())}
    assert set(re.findall(r"^## chex (\S+)$", CLI, re.MULTILINE)) == known


def test_every_capability_of_doctor_is_documented() -> None:
    table = CLI.split("| Capability |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)) == set(PROBES)


def test_every_magic_of_the_source_is_documented() -> None:
    magics = names_of_magics(source_text())
    assert {"chex_checkpoint", "chex_restore", "chex_status", "chex_budget"} <= magics
    assert {name for name in magics if f"## %{name}" not in MAGICS} == set()


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_magic_is_shown_that_is_not_there(page: Path) -> None:
    shown = names_of_magics(page.read_text(encoding="utf-8"))
    assert shown <= names_of_magics(source_text())


def test_every_variable_of_the_source_is_documented() -> None:
    for name in set(re.findall(r"""["'](CHEX_[A-Z_]+)["']""", source_text())):
        assert f"`{name}`" in ENVIRONMENT + CONFIGURATION


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors_of(there), target


def test_the_tour_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "chexpoint").glob("*/__init__.py")}
    assert {name for name in packages if f"`chexpoint.{name}`" not in TOUR} == set()


@pytest.mark.parametrize(
    ("package", "heading"),
    [
        ("engine", "## Inside the engine"),
        ("lineage", "## Inside lineage"),
        ("plan", "## Inside the planner"),
    ],
)
def test_the_tour_names_every_module(package: str, heading: str) -> None:
    folder = ROOT / "src" / "chexpoint" / package
    modules = {path.name for path in folder.glob("[a-z]*.py")}
    assert set(re.findall(r"`(\w+\.py)`", section_of(TOUR, heading))) == modules


def test_every_mode_of_the_audit_is_documented() -> None:
    assert first_column(section_of(ENVIRONMENT, "## Auditing")) == {
        "CHEX_AUDIT",
        "auto",
        "hook",
        "off",
    }


def test_every_kind_of_input_effect_and_hint_is_documented() -> None:
    inputs = section_of(LINEAGE, "## Inputs").split("\n### ")[0]
    assert first_column(inputs) == set(get_args(InputKind))
    assert first_column(section_of(LINEAGE, "## Effects")) == set(get_args(EffectKind))
    hints = set(re.findall(r"(?:\.hint\(|Hint\(\s*kind=)\"([\w-]+)\"", source_text()))
    assert {"time", "own-input"} <= hints
    assert first_column(section_of(LINEAGE, "## Hints")) == hints


def test_every_word_that_stands_for_a_digest_is_documented() -> None:
    documented = first_column(section_of(LINEAGE, "### Words instead of a digest"))
    model = (ROOT / "src" / "chexpoint" / "model" / "lineage.py").read_text(encoding="utf-8")
    described = model.split("Words instead of a digest:")[1].split('"""')[0]
    assert documented == set(re.findall(r"``([^`]+)``", described))


def test_the_names_of_lineage_are_there() -> None:
    names = {row.partition("(")[0] for row in first_column(section_of(LINEAGE, "## In Python"))}
    assert {"code_hash", "equal_states", "differences", "Tolerance"} <= names
    assert {name for name in names if not hasattr(chexpoint.lineage, name)} == set()


@pytest.mark.slow
def test_the_example_of_lineage_prints_what_the_page_says() -> None:
    section = section_of(LINEAGE, "## In Python")
    (code, printed) = re.findall(r"^```(?:python)?\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == printed


def test_every_page_is_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [
            (page.parent / target.partition("#")[0]).resolve()
            for target in LINK.findall(page.read_text(encoding="utf-8"))
            if not target.startswith(("http://", "https://", "#"))
        ]
    assert set(PAGES) <= seen


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_start_with_their_title(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", FENCE.sub("", text), re.MULTILINE)) == 1


def test_the_table_of_settings_is_that_of_the_source() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| ([^|]+) \| ([^|]+) \|$",
        section_of(CONFIGURATION, "## Settings"),
        re.MULTILINE,
    )
    assert [row[:2] for row in rows] == [(each.name, each.variable) for each in SETTINGS]
    for setting, (_, _, default, meaning) in zip(SETTINGS, rows, strict=True):
        if setting.name != "overhead":  # which is said in words
            assert default == (f"`{setting.default}`" if setting.default else setting.unset)
        assert meaning.startswith(setting.help)
        assert {each for each in setting.choices if f"`{each}`" not in meaning} == set()


def test_no_variable_is_shown_that_is_not_there() -> None:
    known = {each.variable for each in SETTINGS} | set(
        re.findall(r"""["'](CHEX_[A-Z_]+)["']""", source_text())
    )
    for page in LINKED_PAGES:
        shown = set(re.findall(r"\bCHEX_[A-Z_]+\b", page.read_text(encoding="utf-8")))
        assert shown <= known, page


def test_every_error_is_documented_with_its_code() -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", section_of(page, "## Classes"), re.MULTILINE)
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    codes = {c.__name__: c.exit_code for c in classes if issubclass(c, errors.ChexError)}
    assert {name: int(code) for name, code in rows} == codes
