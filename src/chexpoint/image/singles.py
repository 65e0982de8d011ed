"""Rules for objects there is one of in a process: they are written by name.

Their state belongs to the process, and comes back with its facts.  A copy of the shared random
number generator, for instance, would not be seeded by ``random.seed`` any more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import live

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler

# By the type of the object: the module it is in, and its name there.
PLACES = {
    "matplotlib.RcParams": ("matplotlib", "rcParams"),
    "numpy.random.mtrand.RandomState": ("numpy.random.mtrand", "_rand"),
    "os._Environ": ("os", "environ"),
    "pandas._config.config.DictWrapper": ("pandas", "options"),
    "random.Random": ("random", "_inst"),
    "torch.Generator": ("torch", "default_generator"),
    "torch._C.Generator": ("torch", "default_generator"),
}


def reduce_single(pickler: ImagePickler, obj: Any) -> Any:
    """Write an object by its name if it is the one of its process."""
    kind = type(obj)
    module, name = PLACES.get(f"{kind.__module__}.{kind.__qualname__}", ("", ""))
    if getattr(sys.modules.get(module), name or " ", None) is not obj:
        return NotImplemented
    pickler.world.modules.add(module)
    return live.attribute, (module, name)


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = dict.fromkeys(
    PLACES, reduce_single
)
