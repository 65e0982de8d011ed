"""Random number generators: those of the process, and those that a program has made itself."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from chexpoint.hindsight.state.leaves import torch_now
from chexpoint.hindsight.state.managed import Adapter, Parts, State


def process_states() -> Iterator[tuple[str, bytes]]:
    """Yield the states of the generators of the process, each as a leaf's name and data."""
    found = sys.modules.get("random")
    if found is not None:
        yield "@random", pickle.dumps(found.getstate(), protocol=5)
    found = sys.modules.get("numpy.random")
    if found is not None:
        yield "@numpy", pickle.dumps(found.get_state(legacy=False), protocol=5)
    torch = torch_now()
    if torch is not None:
        yield "@torch", torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            for number in range(torch.cuda.device_count()):
                yield f"@torch.cuda:{number}", torch.cuda.get_rng_state(number).numpy().tobytes()
    seeds = _keras_seeds()
    if seeds is not None:
        import numpy as np

        yield "@keras", pickle.dumps(np.asarray(seeds.state), protocol=5)


def set_process_state(name: str, data: Any) -> bool:
    """Set a generator of the process to a state; return whether there is one of that name."""
    torch = torch_now()
    if name == "@random":
        sys.modules["random"].setstate(pickle.loads(data))  # noqa: S301 - our own store's
    elif name == "@numpy" and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].set_state(pickle.loads(data))  # noqa: S301 - our own store's
    elif name == "@torch" and torch is not None:
        torch.set_rng_state(_byte_tensor(torch, data))
    elif name.startswith("@torch.cuda:") and torch is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(_byte_tensor(torch, data), int(name.partition(":")[2]))
    elif name == "@keras":
        seeds = _keras_seeds()
        if seeds is None:
            return False
        seeds.state.assign(pickle.loads(data))  # noqa: S301 - our own store's
    else:
        return False
    return True


def _byte_tensor(torch: Any, data: Any) -> Any:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _keras_seeds() -> Any:
    """Return the generator of seeds that Keras shares; None if nobody has asked for it yet."""
    common = sys.modules.get("keras.src.backend.common.global_state")
    return None if common is None else common.get_global_attribute("global_seed_generator")


class RandomAdapter(Adapter):
    """``random.Random``."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return {"@state": obj.getstate()}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.setstate(_as_tuples(state["@state"]))

    def make(self, name: str, kind: type, state: State) -> Any:
        return kind()


def _as_tuples(state: Any) -> Any:
    return tuple(_as_tuples(each) for each in state) if isinstance(state, (list, tuple)) else state


class RandomStateAdapter(Adapter):
    """``numpy.random.RandomState``."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return {"@state": obj.get_state(legacy=False)}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.set_state(state["@state"])

    def make(self, name: str, kind: type, state: State) -> Any:
        return kind()


class BitGeneratorAdapter(Adapter):
    """Bit generators of NumPy."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        spawned = getattr(obj.seed_seq, "n_children_spawned", 0)
        return {"@state": obj.state, "@spawned": spawned}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.state = state["@state"]

    def misfit(self, obj: Any, live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
        return ""

    def make(self, name: str, kind: type, state: State) -> Any:
        return kind()


class GeneratorAdapter(Adapter):
    """``numpy.random.Generator``: its bits are those of its bit generator."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        bits = obj.bit_generator
        return {"@bits": type(bits).__name__, "@state": bits.state}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.bit_generator.state = state["@state"]

    def make(self, name: str, kind: type, state: State) -> Any:
        import numpy as np

        return kind(getattr(np.random, state["@bits"])())


class TorchGeneratorAdapter(Adapter):
    """``torch.Generator``."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return {"@device": str(obj.device), "@state": obj.get_state().numpy().tobytes()}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        obj.set_state(_byte_tensor(torch_now(), state["@state"]))

    def make(self, name: str, kind: type, state: State) -> Any:
        return torch_now().Generator(state["@device"])
