"""Carries what schema 1 kept over into the tables of schema 2.

Schema 1 knew nodes and their runs, and no taints, outputs or versions.  What it does not say is not
guessed: a run whose parent state is not known for sure gets one that nothing leads to.
"""

from __future__ import annotations

import json
import sqlite3
from typing import NamedTuple

from chexpoint.model import lineage_from_json
from chexpoint.project.rows import UNREADABLE, as_int, as_text, content_digest, stored


class _Node(NamedTuple):
    """What the lineage of a node says, and where it went."""

    parent: object
    number: int
    doubt: str
    interrupts: int
    source: int
    lineage: int | None


def carry_over(connection: sqlite3.Connection) -> None:
    """Fill the tables of schema 2 from ``node_1`` and ``execution_1``."""
    connection.execute("CREATE INDEX execution_1_of_node ON execution_1 (node)")
    nodes = {}
    for row in connection.execute("SELECT * FROM node_1"):
        nodes[row[0]] = _carry_node(connection, *row)
    taints = _Taints()
    for row in connection.execute("SELECT * FROM execution_1 ORDER BY id"):
        ident, node, session, count, seconds, size, status, time = row
        known = nodes.get(node)
        if known is None:
            continue  # the file was tampered with: no node, nothing to go back to
        taint, before = taints.of_run(ident, node, session, known, is_failed=status != "ok")
        connection.execute(
            "INSERT INTO execution VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, NULL)",
            (
                *(ident, node, taint, known.parent, before, session, count, seconds, size),
                *(known.interrupts, status, time, known.source, known.lineage),
            ),
        )


def _carry_node(
    connection: sqlite3.Connection,
    ident: object,
    parent: object,
    text: object,
    runs: object,
    first_run: object,
    last_run: object,
) -> _Node:
    try:
        lineage = lineage_from_json(json.loads(text))  # type: ignore[arg-type]
        number, code, source = as_int(lineage.number), as_text(lineage.code), lineage.source
        doubt, interrupts = as_text(lineage.doubt()), as_int(lineage.audit.interrupts)
        kept = _keep_source(connection, source)
    except UNREADABLE:
        # It stays what it is, and whoever asks for it is told.
        number, code, doubt, interrupts = 0, "", "its record is damaged", 0
        kept = _keep_source(connection, "")
    newest = connection.execute(
        "SELECT seconds, size_bytes, execution_count, status FROM execution_1 WHERE node = ?"
        " ORDER BY id DESC LIMIT 1",
        (ident,),
    ).fetchone()
    connection.execute(
        "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(ident, parent, number, stored(code), kept, *(newest or (0.0, 0, 0, "ok"))),
            *(stored(doubt), runs, first_run, last_run),
        ),
    )
    lineage_id = connection.execute("INSERT INTO lineage (text) VALUES (?)", (text,)).lastrowid
    return _Node(parent, number, doubt, interrupts, kept, lineage_id)


class _Taints:
    """The states that the runs of each session led to, as far as schema 1 tells."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, object], set[str]] = {}

    def of_run(
        self, ident: int, node: object, session: object, known: _Node, *, is_failed: bool
    ) -> tuple[str, str]:
        """Return the taints of the states after and before a run."""
        before = {""} if known.number == 1 else self._seen.get((session, known.parent), set())
        # A doubtful cell that ran twice: either run may have led to the next cell.
        parent_taint = next(iter(before)) if len(before) == 1 else f"unknown-{ident}"
        taint = f"schema-1-{ident}" if known.doubt or is_failed else parent_taint
        self._seen.setdefault((session, node), set()).add(taint)
        return taint, parent_taint


def _keep_source(connection: sqlite3.Connection, source: str) -> int:
    digest = content_digest(source)
    connection.execute(
        "INSERT OR IGNORE INTO source (digest, text) VALUES (?, ?)", (digest, stored(source))
    )
    (ident,) = connection.execute("SELECT id FROM source WHERE digest = ?", (digest,)).fetchone()
    return int(ident)
