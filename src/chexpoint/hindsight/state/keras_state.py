"""What Keras 3 objects hold, with any backend: their variables.

A model that was compiled brings its optimizer and metrics with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chexpoint.hindsight.state.managed import Adapter, Parts, State
from chexpoint.hindsight.state.numpy_door import np


class _VariablesAdapter(Adapter):
    """Objects with variables; each is a leaf."""

    def variables(self, obj: Any) -> Iterable[Any]:
        return list(obj.variables)

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return {}, {name: _contents(each) for name, each in self._named(obj).items()}

    def _named(self, obj: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number, variable in enumerate(self.variables(obj)):
            path = getattr(variable, "path", None) or variable.name
            found[path if path not in found else f"{path}#{number}"] = variable
        return found

    def misfit(self, obj: Any, live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
        for name, meta in stored.items():
            if name not in live or list(live[name].shape) != meta["shape"]:
                return f"its variable '{name}' is not there, or of another shape"
        return ""

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        named = self._named(obj)
        for name, value in parts.items():
            # A copy: what was stored must not become the memory of the variable.
            named[name].assign(_copied(value))


def _contents(variable: Any) -> Any:
    """Return the memory of a variable as a tensor of torch or as an array."""
    value = variable.value if hasattr(variable, "value") else variable
    if type(value).__module__.startswith("torch"):
        return value
    return np.asarray(value)


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


class LayerAdapter(_VariablesAdapter):
    """Layers and models."""

    rank = 0

    def parts(self, obj: Any) -> tuple[State, Parts]:
        _, parts = super().parts(obj)
        state: State = {}
        for layer in _layers(obj):
            state[f"@trainable.{layer.name}"] = layer.trainable
        optimizer = getattr(obj, "optimizer", None)
        if optimizer is not None:
            state["optimizer"] = optimizer
        if getattr(obj, "compiled", False):
            state["metrics"] = list(obj.metrics)
        return state, parts

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        super().put(obj, state, parts)
        for layer in _layers(obj):
            trainable = state.get(f"@trainable.{layer.name}", layer.trainable)
            if layer.trainable != trainable:
                layer.trainable = trainable


def _layers(obj: Any) -> list[Any]:
    flatten = getattr(obj, "_flatten_layers", None)
    return [obj] if flatten is None else list(flatten())


class OptimizerAdapter(_VariablesAdapter):
    """Optimizers: momenta, iterations, learning rate."""


class MetricAdapter(_VariablesAdapter):
    """Metrics that gather over batches."""


class SeedAdapter(_VariablesAdapter):
    """Generators of seeds."""

    def variables(self, obj: Any) -> Iterable[Any]:
        return [obj.state]
