"""Which images go when a store is over its budget.  Pure functions of model values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from chexpoint.model import ImageInfo
from chexpoint.store.manifests import Pointer

_HALF_LIFE_S = 86_400.0
_LEAST_BYTES = 4096


def usefulness(info: ImageInfo, now: float) -> float:
    """Return seconds of computing that an image may save, per byte that it takes.

    An image is half as likely to be wanted a day later.
    """
    age = max(0.0, now - info.time)
    chance = math.exp2(-age / _HALF_LIFE_S)
    return info.cost_s * chance / max(info.stored_bytes, _LEAST_BYTES)


def choose_evictions(
    pointers: Sequence[Pointer],
    sizes: Mapping[str, int],
    *,
    budget_bytes: int,
    now: float,
    needed: Iterable[str] = (),
) -> tuple[str, ...] | None:
    """Return the names of images to forget, so that the packs of the rest fit into the budget.

    The least useful go first; those whose going turns out not to help, stay.  Packs that no image
    needs count for nothing, as a sweep removes them.

    Parameters
    ----------
    sizes
        Of all packs, by digest.
    needed
        Packs that stay in any case: those of an image that is being written.

    Returns
    -------
    None if nothing helps, because what is needed alone is too much.
    """
    users = Counter(needed)
    users.update(pack for each in pointers for pack in each.packs)
    total = sum(sizes.get(pack, 0) for pack in users)
    gone: list[Pointer] = []
    for each in sorted(pointers, key=lambda p: (usefulness(p.info, now), p.info.time)):
        if total <= budget_bytes:
            break
        total -= sum(sizes.get(pack, 0) for pack in each.packs if users[pack] == 1)
        users.subtract(each.packs)
        gone.append(each)
    if total > budget_bytes:
        return None
    evicted = []
    for each in reversed(gone):
        back = sum(sizes.get(pack, 0) for pack in each.packs if users[pack] == 0)
        if total + back <= budget_bytes:
            total += back
            users.update(each.packs)
        else:
            evicted.append(each.info.name)
    return tuple(evicted)
