"""Marks on what a ledger holds: nothing is unpickled that the owner of the key did not write."""

from __future__ import annotations

import hashlib
import hmac

from chexpoint.errors import InvalidValue

_PERSON = b"chex-graph"


def checked_key(key: bytes) -> bytes:
    """Return a key if it is one."""
    if not 16 <= len(key) <= 64:
        raise InvalidValue(f"a key of a graph has 16 to 64 bytes, not {len(key)}.")
    return bytes(key)


def mark_of(key: bytes, what: str, data: bytes) -> str:
    """Return the mark that only the owner of the key can make.

    Parameters
    ----------
    key
        Of the team.
    what
        What the data is, and of whom: nobody can pass it off as something else.
    data
        What is marked.
    """
    name = what.encode("utf-8", "surrogatepass")
    # The length keeps the name apart from the data.
    hashed = hashlib.blake2b(
        len(name).to_bytes(8, "little"), key=key, person=_PERSON, digest_size=32
    )
    hashed.update(name)
    hashed.update(data)
    return hashed.hexdigest()


def is_marked(key: bytes, what: str, data: bytes, mark: object) -> bool:
    """Return whether the owner of the key made the mark."""
    if not isinstance(mark, str):
        return False
    made = mark_of(key, what, data).encode()
    return hmac.compare_digest(made, mark.encode("utf-8", "surrogatepass"))
