"""The matrix of types: how each is made, and whether an image brings it back.

The cases are in ``tests/unit/image/cases``.  Run as a program this makes their values in a fresh
process and captures them (``make FILE``), or rebuilds them in another one (``load FILE``).
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "unit" / "image" / "cases"
FILES = ("plain", "standard", "arrays", "torch", "models", "libraries", "more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One type: source that makes ``v``, and an expression of plain data that tells its state."""

    library: str
    name: str
    source: str
    probe: str
    """Empty if the variable is expected to be named as lost."""

    @property
    def title(self) -> str:
        """Return how the case is called."""
        return f"{self.library}: {self.name}"

    @property
    def expected(self) -> str:
        """Return what is to become of it."""
        return "restored" if self.probe else "lost"


def read_cases(text: str) -> list[Case]:
    """Return the cases of a file; what stands before the first belongs to all of them.

    Examples
    --------
    >>> [case] = read_cases("x = 1\\n== re: pattern\\nv = x\\n-> v + 1\\n")
    >>> case.title, case.source, case.probe
    ('re: pattern', 'x = 1\\nv = x', 'v + 1')
    """
    first, *sections = ("\n" + text).split("\n== ")
    cases = []
    for section in sections:
        title, _, rest = section.partition("\n")
        source, _, probe = rest.rpartition("\n-> ")
        library, _, name = title.partition(": ")
        probe = "" if probe.strip() == "lost" else probe.strip()
        source = f"{first}\n{source}".strip()
        cases.append(Case(library=library, name=name, source=source, probe=probe))
    return cases


def all_cases() -> list[Case]:
    """Return the cases of all files."""
    texts = [(FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in FILES]
    return [case for text in texts for case in read_cases(text)]


def installed_cases() -> list[Case]:
    """Return the cases that can be tried here."""
    return [case for case in all_cases() if find_spec(case.library) is not None]


def kishu_classes() -> dict[str, str]:
    """Return Kishu's public list of classes, each with its case, or why there is none."""
    lines = (FOLDER / "kishu.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(" -> ") for line in lines if " -> " in line]
    return {name: case for name, _, case in pairs}


def tables() -> str:
    """Return the tables of the reference page."""
    lines = ["| library | types | image |", "|---|---|---|"]
    lines += [f"| {case.library} | {case.name} | {case.expected} |" for case in all_cases()]
    lines += ["", "## Kishu's list", "", "| class | case |", "|---|---|"]
    lines += [f"| `{name}` | {case} |" for name, case in kishu_classes().items()]
    return "\n".join(lines) + "\n"


def new_namespace() -> dict[str, Any]:
    """Return a namespace like that of a notebook."""
    return {"__name__": "__main__", "__builtins__": __builtins__}


def make(path: Path) -> None:
    """Make the values of all cases, capture them, and write the images to a file."""
    from chexpoint.image import TouchLog, capture
    from chexpoint.model import to_json

    made = []
    for case in installed_cases():
        namespace = new_namespace()
        touches = TouchLog()
        exec(compile(case.source, "<cell>", "exec", dont_inherit=True), namespace)  # noqa: S102
        touches.ran("cell", case.source, namespace)
        image = capture(namespace, touches=touches)
        arrays = {key: bytes(part) for key, part in image.arrays.items()}
        told = repr(eval(case.probe, namespace)) if case.probe else ""  # noqa: S307
        made.append((case, json.dumps(to_json(image.document)), image.streams, arrays, told))
    path.write_bytes(pickle.dumps(made))


def load(path: Path) -> None:
    """Rebuild the images in a file; print what became of each case."""
    for case, document, streams, arrays, told in pickle.loads(path.read_bytes()):  # noqa: S301
        try:
            outcome = outcome_of(case, json.loads(document), streams, arrays, told)
        except Exception as error:  # any failure is an outcome
            outcome = f"failed: {type(error).__name__}: {error}"
        print(json.dumps([case.title, outcome]), flush=True)  # noqa: T201


def outcome_of(
    case: Case, document: dict[str, Any], streams: dict[str, Any], arrays: dict[str, Any], told: str
) -> str:
    """Return what became of a case: ``restored``, ``lost``, or what is wrong."""
    from chexpoint.image import rebuild
    from chexpoint.model import image_document_from_json

    image = image_document_from_json(document)
    main = new_namespace()
    main |= rebuild(image, streams.__getitem__, lambda key: bytearray(arrays[key]), main=main)
    if any(each.name == "v" for each in image.lost):
        return "lost"
    if not case.probe:
        return "restored"
    now = repr(eval(case.probe, main))  # noqa: S307
    return "restored" if now == told else f"wrong: {now[:300]} instead of {told[:300]}"


if __name__ == "__main__":
    {"make": make, "load": load}[sys.argv[1]](Path(sys.argv[2]))
