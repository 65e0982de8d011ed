"""Outputs of cells as JSON: small ones in the catalog, large ones in files of their own."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.model import CellRecord, Digest, Output
from chexpoint.project.contents import Contents
from chexpoint.project.rows import UNREADABLE, as_text, content_digest

LARGEST_IN_CATALOG = 64 * 1024
"""Bytes of JSON; more would make the catalog slow for everything else."""


class NewOutputs(NamedTuple):
    """Outputs that are kept, except for their row."""

    digest: Digest
    text: str | None
    """None if they are in a file."""


class OutputRow(NamedTuple):
    """The outputs of a run, as the catalog has them."""

    node: Any
    execution_count: Any
    ident: Any
    """None if they were not recorded."""
    digest: Any
    text: Any


class KeptOutputs:
    """Turns outputs into what the catalog keeps, and back."""

    def __init__(self, files: Contents) -> None:
        self._files = files

    def put(self, cell: CellRecord) -> NewOutputs:
        """Keep the outputs of a cell, on disk if they are large.

        Raises
        ------
        InvalidValue
            If they are not what a notebook can hold.
        OSError
            If they cannot be written.
        """
        try:
            # ASCII, so that text that is not UTF-8 comes back as it was.
            text = json.dumps(cell.outputs)
        except UNREADABLE as error:
            where = f"cell [{cell.lineage.execution_count}]"
            raise InvalidValue(f"the outputs of {where} cannot be kept: {error}") from error
        digest = content_digest(text)
        if len(text) <= LARGEST_IN_CATALOG:
            return NewOutputs(digest, text)
        self._files.put(text.encode(), digest)
        return NewOutputs(digest, None)

    def get(self, row: OutputRow) -> tuple[Output, ...]:
        """Return the outputs of a run.

        Raises
        ------
        CatalogError
            If they are damaged or missing.
        """
        if row.ident is None:
            return ()
        try:
            text = as_text(self._files.get(row.digest) if row.text is None else row.text)
            if content_digest(text) != row.digest:
                raise ValueError("they have changed")
            outputs = json.loads(text)
            if not all(isinstance(output, dict) for output in outputs):
                raise ValueError("they are no outputs")
        except UNREADABLE as error:
            raise CatalogError(
                f"the outputs of cell [{row.execution_count}] (node {row.node}) are damaged or "
                "missing in the catalog. Run the cell again."
            ) from error
        return tuple(outputs)
