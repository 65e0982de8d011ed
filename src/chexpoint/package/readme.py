"""The page for people who open a package with another program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chexpoint.model import Recording, format_seconds
from chexpoint.package.environment import minor_version
from chexpoint.package.names import plain


def readme_text(
    recording: Recording, notebooks: Mapping[str, str], left_out: Sequence[str], made_by: str
) -> str:
    """Return what is in a package, and how to replay it, as Markdown."""
    environment = recording.environment
    python = minor_version(environment.python)
    title = recording.title or "Versions of a notebook"
    return "\n".join(
        [
            f"# {plain(title)}",
            "",
            "A package of CHEX: versions of a notebook, with what they read and what they showed.",
            "",
            *_table(recording, notebooks),
            "",
            "## Replay",
            "",
            "```console",
            f"$ python{python} -m venv chex-venv" if python else "$ python3 -m venv chex-venv",
            "$ chex-venv/bin/pip install chexpoint -r requirements.lock",
            "$ chex-venv/bin/chex replay PACKAGE.chex",
            "```",
            "",
            "This computes every version again, what they share once, and compares it with what",
            "was recorded. It runs the code in this package: read it before.",
            "",
            "## What is in here",
            "",
            "| | |",
            "|---|---|",
            "| `notebooks/` | the versions as notebooks, with their recorded outputs |",
            "| `files/` | the files that the cells read, named by the digest of their contents |",
            "| `chex.json` | the versions, their execution tree, and all members with digests |",
            "| `lineage.json` | what each cell read and wrote |",
            "| `outputs.json`, `outputs/` | what each cell showed |",
            "| `environment.json` | Python and the installed packages |",
            "| `requirements.lock` | the packages that the versions need |",
            "| `ro-crate-metadata.json` | the same for research repositories (RO-Crate) |",
            "",
            *_left_out(left_out),
            f"Made by {plain(made_by)}.",
            "",
        ]
    )


def _table(recording: Recording, notebooks: Mapping[str, str]) -> list[str]:
    tree = recording.tree
    rows = ["| version | cells | recorded in | notebook |", "|---|---|---|---|"]
    for version in tree.versions:
        label = tree.labels[version]
        seconds = format_seconds(sum(tree.nodes[node].cost for node in version.path))
        member = notebooks.get(label, "")
        rows.append(f"| {plain(label)} | {len(version.path)} | {seconds} | {member} |")
    return rows


def _left_out(sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    return ["## Not in here", "", *(f"- {plain(sentence)}" for sentence in sentences), ""]
