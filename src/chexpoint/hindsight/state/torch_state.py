"""What torch objects hold: modules, optimizers, schedulers, data loaders.

Gradients are not state: a training step makes them anew.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from chexpoint.hindsight.state.contents import attributes_of
from chexpoint.hindsight.state.managed import (
    Adapter,
    Parts,
    State,
    StateDictAdapter,
    replace_attributes,
    shape_misfit,
)
from chexpoint.hindsight.state.user_code import is_user_type
from chexpoint.hindsight.state.walking import is_tensor

# What every module has beside the attributes that its class gives it.
_OF_MODULES = frozenset(vars(torch.nn.Module())) | {
    "_compiled_call_impl",
    "_flat_weight_refs",
    "_flat_weights",
    "_is_hf_initialized",
    "call_super_init",
}


class ModuleAdapter(Adapter):
    """``torch.nn.Module``: parameters and buffers are parts, tied ones once."""

    rank = 0

    def parts(self, obj: Any) -> tuple[State, Parts]:
        state: State = {"@training": {}, "@requires_grad": {}}
        parts: Parts = {}
        names: dict[int, str] = {}
        for prefix, module in _modules(unwrapped(obj)):
            state["@training"][prefix] = module.training
            for name, parameter in module._parameters.items():
                if is_tensor(parameter) and names.setdefault(id(parameter), prefix + name):
                    parts.setdefault(names[id(parameter)], parameter)
                    state["@requires_grad"][prefix + name] = parameter.requires_grad
            for name, buffer in module._buffers.items():
                if is_tensor(buffer):
                    parts.setdefault(names.setdefault(id(buffer), prefix + name), buffer)
            state.update(_attributes(module, prefix))
        return state, parts

    def unseen(self, obj: Any) -> str:
        for prefix, module in _modules(unwrapped(obj)):
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                if not (value is None or is_tensor(value) or torch.nn.parameter.is_lazy(value)):
                    return f"its '{prefix}{name}' is a tensor that is not plain memory"
        return ""

    def misfit(self, obj: Any, live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
        return shape_misfit(live, stored)

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        _, live = self.parts(obj)
        modules = dict(_modules(unwrapped(obj)))
        with torch.no_grad():
            for name, value in parts.items():
                live[name].copy_(value)
        for prefix, is_training in state.pop("@training").items():
            if prefix in modules:
                modules[prefix].training = is_training
        for name, needs_grad in state.pop("@requires_grad").items():
            prefix, _, last = name.rpartition(".")
            owner = modules.get(f"{prefix}." if prefix else "")
            parameter = None if owner is None else owner._parameters.get(last)
            if parameter is not None:
                parameter.requires_grad_(needs_grad)
                parameter.grad = None
        by_module: dict[str, dict[str, Any]] = {}
        for name, value in state.items():
            prefix, dot, last = name.rpartition(".")
            by_module.setdefault(prefix + dot, {})[last] = value
        for prefix, module in modules.items():
            own = by_module.get(prefix, {})
            # Not `setattr`: it would register tensors and modules.
            replace_attributes(module, [name for name, _ in _attributes(module, "")], own)


def unwrapped(module: Any) -> Any:
    """Return the module inside that of ``torch.compile``."""
    inner = module._modules.get("_orig_mod")
    return module if inner is None else inner


def _modules(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield a module and all in it, each once, with the beginnings of names in them."""
    seen: set[int] = set()
    stack = [("", module)]
    while stack:
        prefix, at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield prefix, at
        children = [
            (f"{prefix}{name}.", each) for name, each in at._modules.items() if each is not None
        ]
        stack.extend(reversed(children))


def _attributes(module: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    is_own = is_user_type(type(module))
    for name, value in vars(module).items():
        if name in _OF_MODULES or (not is_own and name.startswith("_")):
            continue
        yield prefix + name, value


class OptimizerAdapter(Adapter):
    """``torch.optim.Optimizer``; of parameters of no module that is known, also these."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        parts: Parts = {}
        state: State = {name: vars(obj)[name] for name in _own_names(obj)}
        state["@groups"] = [dict(group) for group in obj.param_groups]
        rest = state["@state"] = {}
        number = 0
        for at, group in enumerate(obj.param_groups):
            for within, parameter in enumerate(group["params"]):
                parts[f"param.{at}.{within}"] = parameter
                if parameter in obj.state:
                    rest[number] = {}
                    for key, value in obj.state[parameter].items():
                        if _is_part(value):
                            parts[f"{number}.{key}"] = value
                        else:
                            rest[number][key] = value
                number += 1
        return state, parts

    def misfit(self, obj: Any, live: Parts, stored: Mapping[str, Mapping[str, Any]]) -> str:
        return shape_misfit(
            live, {name: meta for name, meta in stored.items() if name.startswith("param.")}
        )

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        _, live = self.parts(obj)
        groups, rest = state.pop("@groups"), state.pop("@state")
        with torch.no_grad():
            for name, value in parts.items():
                if name.startswith("param."):
                    live[name].copy_(value)
                    live[name].grad = None
        _put_groups(obj, groups)
        by_number: dict[str, dict[str, Any]] = {}
        for name, value in parts.items():
            at, _, key = name.partition(".")
            by_number.setdefault(at, {})[key] = value
        number = 0
        for group in obj.param_groups:
            for parameter in group["params"]:
                _put_state(obj, parameter, rest.get(number), by_number.get(str(number), {}))
                number += 1
        replace_attributes(obj, _own_names(obj), state)

    def make(self, name: str, kind: type, state: State) -> Any:
        groups = state["@groups"]
        made = copyreg.__newobj__(kind)  # type: ignore[attr-defined]
        defaults = {key: value for key, value in groups[0].items() if key != "params"}
        made.__setstate__({"defaults": defaults, "state": {}, "param_groups": groups})
        return made


def _own_names(optimizer: Any) -> list[str]:
    """Return the attributes of an optimizer that its program may have changed."""
    return [
        name
        for name in vars(optimizer)
        if name not in ("state", "param_groups", "defaults", "step")
        and (name == "_opt_called" or not name.startswith("_"))
    ]


def _is_part(value: Any) -> bool:
    # Not the count of steps: a leaf for each of these would cost more than it saves.
    return is_tensor(value) and value.nbytes > 64


def _put_groups(optimizer: Any, groups: list[dict[str, Any]]) -> None:
    live = optimizer.param_groups
    for at, group in enumerate(groups):
        if at < len(live):
            # Schedulers and the program may hold the dict.
            if live[at] is not group:
                live[at].clear()
                live[at].update(group)
        else:
            live.append(dict(group))
    del live[len(groups) :]


def _put_state(
    optimizer: Any, parameter: Any, rest: dict[str, Any] | None, parts: dict[str, Any]
) -> None:
    """Put back what an optimizer holds of one parameter."""
    if rest is None:
        optimizer.state.pop(parameter, None)
        return
    held = optimizer.state.get(parameter, {})
    kept = {key: value for key, value in held.items() if _is_part(value)}
    made: dict[str, Any] = dict(rest)
    with torch.no_grad():
        for key, value in parts.items():
            here = kept.get(key)
            if here is not None and here.shape == value.shape and here.dtype == value.dtype:
                made[key] = here.copy_(value)
            else:
                made[key] = value.clone(memory_format=torch.preserve_format).to(parameter.device)
    for key, value in kept.items():
        made.setdefault(key, value)
    held.clear()
    held.update(made)
    optimizer.state[parameter] = held


class SchedulerAdapter(StateDictAdapter):
    """Learning rate schedulers: they bring their optimizer with them."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        state, parts = super().parts(obj)
        return {**state, "optimizer": obj.optimizer}, parts


class LoaderAdapter(Adapter):
    """``DataLoader``: its sampler, and generators; an iterator over it is not its state."""

    def parts(self, obj: Any) -> tuple[State, Parts]:
        names = ("dataset", "generator", "sampler", "batch_sampler")
        return {name: vars(obj)[name] for name in names if name in vars(obj)}, {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        vars(obj).update(state)

    def unseen(self, obj: Any) -> str:
        if obj.persistent_workers and obj.num_workers:
            return "its workers live on from epoch to epoch, and their state cannot be stored"
        return ""


class DatasetAdapter(Adapter):
    """``Dataset``: all attributes; if it is too large to be looked at, it is taken as constant."""

    is_data = True

    def parts(self, obj: Any) -> tuple[State, Parts]:
        return dict(attributes_of(obj)), {}

    def put(self, obj: Any, state: State, parts: Mapping[str, Any]) -> None:
        replace_attributes(obj, list(vars(obj)), state)
