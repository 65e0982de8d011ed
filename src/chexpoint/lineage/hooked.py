"""The notes of a cell from the worker's own report, where system calls are not seen.

Python's audit hook tells what Python did, with what each file was before; the
contents are looked at only now.  A file that is no longer what it was has no
digest, and the cell is then incomplete.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chexpoint.lineage.files import Files, Where
from chexpoint.lineage.fingerprint import Reading, Signature, signature_of
from chexpoint.lineage.places import Kind
from chexpoint.lineage.processes import WORKER

_WRITES = {"write", "append", "truncate"}
_CHANGES = {*_WRITES, "delete", "folder"}


def add_report(files: Files, report: Mapping[str, Any]) -> None:
    """Note what the audit hook has seen; see `CellWatch.finish`."""
    for op, name, *rest in report.get("opened", ()):
        if op == "connect":
            files.log.peers[name] = WORKER
            files.log.did(WORKER, "connect", name)
        elif op in {"rename", "link"}:
            before, new, replaced = rest
            if op == "rename":
                _change(files, op, name, _tuple(before))
            _change(files, op, new, _tuple(replaced))
        elif op in _CHANGES:
            _change(files, op, name, _tuple(rest[0]))
        else:
            _read(files, op, name, _tuple(rest[0]))


def _tuple(signature: list[int] | None) -> Signature | None:
    return None if signature is None else tuple(signature)  # type: ignore[return-value]


def _change(files: Files, op: str, path: str, before: Signature | None) -> None:
    folder, name = _find(files, path, follow=op in _WRITES)
    if name != b"__pycache__" and folder.kind is Kind.DATA:
        files.log.wrote(WORKER, op, folder.text(name), before)


def _find(files: Files, path: str, *, follow: bool) -> Where:
    folder, name = files.folders.split(os.fsencode(path))
    files.note_links(WORKER, folder)
    if follow and folder.kind is Kind.DATA and not folder.far:
        folder, name = files.folders.follow(folder, name)
        files.note_links(WORKER, folder)
    return folder, name


def _read(files: Files, op: str, path: str, then: Signature | None) -> None:
    folder, name = _find(files, path, follow=True)
    real = folder.text(name)
    if op == "list" and files.places.kind(real) is not Kind.DATA:
        return
    if folder.kind is not Kind.DATA or folder.far:
        if folder.kind is not Kind.IGNORED:
            files.read(WORKER, folder, name)
    elif then is None:
        # Not what is there by now: the cell may have made it since.
        if real not in files.log.writes and not files.places.is_system_file(real):
            files.log.word(WORKER, real, "absent")
    elif real in files.log.writes and op != "rdwr":
        files.log.did(WORKER, "read own", real)
    elif _now(path) == then:
        files.read(WORKER, folder, name)
    else:
        found = Reading(then, files.known(then) or "volatile")
        (files.log.listed if op == "list" else files.log.read)(WORKER, real, found)
        files.log.gap(f"{path} changed before its contents could be looked at")
    if op == "rdwr" and folder.kind is Kind.DATA:
        files.log.wrote(WORKER, "update", real, then)


def _now(path: str) -> Signature | None:
    try:
        return signature_of(os.stat(path))
    except OSError:
        return None
