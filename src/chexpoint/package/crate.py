"""The RO-Crate metadata file: what research repositories read of a package.

It follows version 1.1 of RO-Crate.  All of it is derived from what is in the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from chexpoint.model import Bytes, EnvironmentInfo, ExecutionTree, Recording, format_seconds
from chexpoint.package.documents import (
    CRATE,
    ENVIRONMENT,
    LINEAGE,
    LOCK,
    MANIFEST,
    OUTPUTS,
    README,
    Document,
)

_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
# RO-Crate itself has no word for it; the profiles for workflow runs use this one.
_SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"

_DESCRIBED = {
    MANIFEST: "versions and their execution tree, and what is in the package",
    LINEAGE: "what each cell read and wrote",
    OUTPUTS: "what each cell showed",
    ENVIRONMENT: "Python and the installed packages",
    LOCK: "the packages that the versions need, pinned",
    README: "what is in the package, and how to replay it",
}
# A table of our own: those of the system differ from one machine to the next.
_FORMATS = {
    "csv": "text/csv",
    "gz": "application/gzip",
    "h5": "application/x-hdf5",
    "html": "text/html",
    "ipynb": "application/x-ipynb+json",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "lock": "text/plain",
    "md": "text/markdown",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "wav": "audio/wav",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}
_LICENSE = {
    "@id": "#license",
    "@type": "CreativeWork",
    "name": "No license is stated",
    "description": "Ask the authors how this may be used.",
}


class CrateFile(NamedTuple):
    """A member, as the crate tells of it."""

    size_bytes: Bytes
    sha256: str
    names: tuple[str, ...] = ()
    """What it is called in the project, or which version it is the notebook of."""


def crate_document(
    recording: Recording,
    files: Mapping[str, CrateFile],
    notebooks: Mapping[str, str],
    made_by: str,
    needed: tuple[str, ...],
) -> Document:
    """Return the metadata file.

    Parameters
    ----------
    files
        All members, except for the manifest, which holds the digest of what is returned here.
    notebooks
        The members that are notebooks, by the label of the version.
    """
    software = list(_software(recording.environment, made_by, needed))
    labels = {member: label for label, member in notebooks.items()}
    parts = [_part(name, file, labels.get(name)) for name, file in sorted(files.items())]
    parts.insert(0, _file(MANIFEST, {"description": _DESCRIBED[MANIFEST]}))
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": recording.title or "Versions of a notebook",
        "description": _description(recording.tree),
        "datePublished": _newest_day(recording.tree),
        "license": {"@id": _LICENSE["@id"]},
        "hasPart": [{"@id": part["@id"]} for part in parts],
        "mentions": [{"@id": each["@id"]} for each in software],
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": _SPECIFICATION},
    }
    return {
        "@context": [f"{_SPECIFICATION}/context", {"sha256": _SHA256}],
        "@graph": [descriptor, root, *parts, _LICENSE, *software],
    }


def _part(name: str, file: CrateFile, label: str | None) -> Document:
    rest: Document = {"contentSize": str(file.size_bytes), "sha256": file.sha256}
    if label is not None:
        rest["name"] = label
        rest["description"] = f"version {label} with its recorded outputs"
        rest["programmingLanguage"] = {"@id": "#python"}
    elif file.names:
        first, *others = file.names
        rest["name"] = first
        rest |= {"alternateName": others} if others else {}
    if name in _DESCRIBED:
        rest["description"] = _DESCRIBED[name]
    return _file(name, rest, is_source=label is not None)


def _file(name: str, rest: Document, *, is_source: bool = False) -> Document:
    suffix = rest.get("name", name).rpartition(".")[2] if not is_source else "ipynb"
    kind = _FORMATS.get(suffix.lower(), "application/octet-stream")
    types = ["File", "SoftwareSourceCode"] if is_source else "File"
    return {"@id": name, "@type": types, "name": name, "encodingFormat": kind, **rest}


def _software(
    environment: EnvironmentInfo, made_by: str, needed: tuple[str, ...]
) -> Iterator[Document]:
    name, _, version = made_by.partition(" ")
    yield {"@id": "#chex", "@type": "SoftwareApplication", "name": name, "softwareVersion": version}
    yield {
        "@id": "#python",
        "@type": ["ComputerLanguage", "SoftwareApplication"],
        "name": "Python",
        "softwareVersion": environment.python,
    }
    for package, release in environment.packages:
        if package in needed:
            yield {
                "@id": f"#package-{package}",
                "@type": "SoftwareApplication",
                "name": package,
                "softwareVersion": release,
            }


def _description(tree: ExecutionTree) -> str:
    seconds = format_seconds(sum(node.cost for node in tree.nodes.values()))
    labels = ", ".join(tree.labels[version] for version in tree.versions)
    return (
        f"Versions of a notebook with data and recorded results, to replay with CHEX: {labels}. "
        f"They have {len(tree)} different cells, which took {seconds}."
    )


def _newest_day(tree: ExecutionTree) -> str:
    """Return the day on which something was recorded last, so that the bytes stay the same."""
    times = [node.last_run for node in tree.nodes.values()]
    times += [version.created for version in tree.versions]
    # Beyond the year 9999 there are no dates; nobody has recorded anything there.
    return datetime.fromtimestamp(min(max(times), 253_402_300_799), tz=UTC).date().isoformat()
