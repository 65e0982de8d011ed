"""One way to hash values: tagged, and with lengths, so that no two values look alike."""

from __future__ import annotations

import xxhash

from chexpoint.model import Digest


def digest(tag: str, *parts: str | bytes) -> Digest:
    """Return the xxh3_128 of a tag and some parts, each preceded by its length."""
    hasher = xxhash.xxh3_128()
    for part in (tag, *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return hasher.hexdigest()
