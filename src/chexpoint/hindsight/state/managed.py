"""Managed objects: those whose state is taken apart and put back in place.

Each has an `Adapter`, found by the qualified name of its class or of a base of it.  To add a
library, write a class with two methods and enter it in `ADAPTERS`, as
``"library.module.Class": ("chexpoint.hindsight.my_state", "MyAdapter")``:

* ``parts(obj)`` returns what the object holds: a flat dict of plain values (a key reads like an
  attribute: ``"sampler"``, ``"layer1.history"``; keys of no attribute begin with ``@``), and the
  tensors or arrays that are leaves of their own, by name.
* ``put(obj, state, parts)`` puts such values back; ``parts`` are read-only views of what was
  stored, and may lack some that have not changed.

Values may hold other managed objects: these are leaves of their own, and the same live object is
there when the value comes back.  The module of an adapter is loaded when an object of its library
is first seen, so it may import that library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

Parts = dict[str, Any]
State = dict[str, Any]

_TORCH = "chexpoint.hindsight.state.torch_state"
_RANDOM = "chexpoint.hindsight.state.randomness"
_KERAS = "chexpoint.hindsight.state.keras_state"

ADAPTERS: dict[str, tuple[str, str]] = {
    "_random.Random": (_RANDOM, "RandomAdapter"),
    "keras.src.layers.layer.Layer": (_KERAS, "LayerAdapter"),
    "keras.src.optimizers.base_optimizer.BaseOptimizer": (_KERAS, "OptimizerAdapter"),
    "keras.src.metrics.metric.Metric": (_KERAS, "MetricAdapter"),
    "keras.src.random.seed_generator.SeedGenerator": (_KERAS, "SeedAdapter"),
    "numpy.random._generator.Generator": (_RANDOM, "GeneratorAdapter"),
    "numpy.random.bit_generator.BitGenerator": (_RANDOM, "BitGeneratorAdapter"),
    "numpy.random.mtrand.RandomState": (_RANDOM, "RandomStateAdapter"),
    "sklearn.base.BaseEstimator": (
        "chexpoint.hindsight.state.estimator_state",
        "EstimatorAdapter",
    ),
    "torch._C.Generator": (_RANDOM, "TorchGeneratorAdapter"),
    "torch.nn.modules.module.Module": (_TORCH, "ModuleAdapter"),
    "torch.optim.lr_scheduler.LRScheduler": (_TORCH, "SchedulerAdapter"),
    "torch.optim.optimizer.Optimizer": (_TORCH, "OptimizerAdapter"),
    "torch.utils.data.dataloader.DataLoader": (_TORCH, "LoaderAdapter"),
    "torch.utils.data.dataset.Dataset": (_TORCH, "DatasetAdapter"),
}


class Adapter:
    """How objects of one kind are taken apart and put back."""

    rank = 1
    """Adapters of a lower rank name tensors first: a parameter is its module's."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        """Return the plain state and the tensors or arrays of an object."""
        raise NotImplementedError

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        """Put a state back into an object."""
        raise NotImplementedError

    def misfit(self, obj: Any, live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
        """Return why parts cannot be put into an object; empty if they can.

        Parameters
        ----------
        live
            Its parts now.
        stored
            What is known of the stored ones, by name.
        """
        return ""

    def make(self, name: str, kind: type, state: State) -> Any:
        """Return a new object for a state to be put into; None if there is no way to make one."""
        return None

    is_apart = True
    """Whether an object inside another of this adapter is a leaf of its own."""
    is_data = False
    """Whether objects too large to be looked at are taken for unchanged, as data sets are."""

    def unseen(self, obj: Any) -> str:
        """Return why an object's state cannot be followed; empty if it can."""
        return ""


class StateDictAdapter(Adapter):
    """Library objects that give their state with ``state_dict`` and take it back."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return {"@state": obj.state_dict()}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.load_state_dict(state["@state"])


def replace_attributes(obj: Any, old: Iterable[str], new: Mapping[str, Any]) -> None:
    """Set attributes of an object itself, and take those away that it should not have."""
    held = vars(obj)
    for name in old:
        if name not in new:
            held.pop(name, None)
    held.update(new)


_STATE_DICT = StateDictAdapter()
_found: dict[type, Adapter | None] = {}
_loaded: dict[tuple[str, str], Adapter] = {}


def adapter_for(kind: type) -> Adapter | None:
    """Return the adapter for objects of a type, the most special one; None for plain objects."""
    try:
        return _found[kind]
    except KeyError:
        found = _found[kind] = _find(kind)
        return found


def _find(kind: type) -> Adapter | None:
    for base in kind.__mro__:
        place = ADAPTERS.get(f"{base.__module__}.{base.__qualname__}")
        if place is not None:
            if place not in _loaded:
                _loaded[place] = getattr(import_module(place[0]), place[1])()
            return _loaded[place]
    from chexpoint.hindsight.state.user_code import is_user_type

    # What a user's own class gives as its state may leave things out: all attributes are taken.
    if all(hasattr(kind, name) for name in ("state_dict", "load_state_dict")):
        return None if is_user_type(kind) else _STATE_DICT
    return None


def shape_misfit(live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which stored part has no live one of its shape and type; empty if all have."""
    for name, meta in stored.items():
        if name not in live:
            return f"it has no '{name}'"
        here = live[name]
        dtype = str(here.dtype).removeprefix("torch.") if meta["lib"] == "torch" else here.dtype.str
        if list(here.shape) != meta["shape"] or dtype != meta["dtype"]:
            was = f"{meta['dtype']} {meta['shape']}"
            return f"its '{name}' is {dtype} {list(here.shape)}, not {was}"
    return ""
