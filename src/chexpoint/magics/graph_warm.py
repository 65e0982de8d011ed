"""Lets the training of a model begin where another one has ended.

Only on request, and only with a model of the same class that was trained on the same data.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chexpoint.engine import load_contents, load_from_image, read_uses
from chexpoint.errors import InvalidValue
from chexpoint.graph import Bindings, follow
from chexpoint.model import ArtifactId, CellLineage

# Parameters that decide how large the fitted parts of an estimator are, or what they mean.
_SHAPES = frozenset(
    {
        "activation",
        "estimator",
        "fit_intercept",
        "hidden_layer_sizes",
        "init",
        "loss",
        "max_bins",
        "multi_class",
        "n_components",
        "positive",
    }
)


def bindings_of(path: Sequence[CellLineage]) -> Bindings | None:
    """Return what the variables are after a path of cells; None if that is not known."""
    if not path:
        return None
    bindings = Bindings(path[0].parent)
    for cell in path:
        # What cells made that may give something else each time, or have failed, is known by its
        # contents alone.
        deed = follow(bindings, cell, run="")
        if deed is None:
            return None
        bindings = deed.after
    return bindings


def identities(bindings: Bindings, names: Iterable[str]) -> list[str]:
    """Return what ``chex graph warm --on`` takes for some variables: ids and digests.

    Raises
    ------
    InvalidValue
        If one of them is not known.
    """
    found = []
    for name in names:
        artifact = bindings.variables.get(name)
        if artifact is None:
            raise InvalidValue(f"'{name}' is not in the graph: make it in a cell before this one")
        found.append(f"{artifact},{bindings.digest(name)}")
    return found


def changed_before(cell: str, magic: str, names: Iterable[str]) -> str:
    """Return the first of some variables that a cell may have changed before it calls a magic."""
    lines = []
    for line in cell.splitlines():
        if magic in line:
            break
        if not line.lstrip().startswith(("%", "!")):
            lines.append(line)
    uses = read_uses("\n".join(lines))
    return next((name for name in names if uses.is_opaque or name in uses.touched), "")


def fetched_values(fetched: Mapping[str, Any], main: dict[str, object]) -> dict[str, object]:
    """Return the variables of what ``chex graph warm --fetch`` has brought, and remove that.

    Raises
    ------
    ImageRefused
        If they were stored with other libraries than there are now.
    """
    if fetched["contents"]:
        values: dict[str, object] = load_contents(fetched["contents"], main)
        return values
    from chexpoint.store import Store

    try:
        key = bytes.fromhex(fetched["key"])
        with (
            Store.open(fetched["store"], key=key, create=False) as store,
            store.read(fetched["image"]) as image,
        ):
            loaded: dict[str, object] = load_from_image(image, fetched["names"], main)
            return loaded
    finally:
        shutil.rmtree(fetched["store"], ignore_errors=True)


def why_unfit(model: object) -> str:
    """Return why the training of a model cannot begin with another one; or nothing."""
    kind = type(model).__name__
    if _is_module(model):
        return ""
    if isinstance(model, type) or not hasattr(type(model), "get_params"):
        return f"{kind} is neither an estimator of scikit-learn nor a module of torch"
    if "warm_start" not in _parameters(model):
        return f"{kind} has no warm_start"
    if _fitted(model):
        return "it is fitted already: make a new one"
    return ""


def chosen_from(values: Mapping[str, object], model: object, name: str) -> object | None:
    """Return the value of a model's class among some variables; that of its name first."""
    fitting = {key: each for key, each in values.items() if type(each) is type(model)}
    return fitting.get(name, next(iter(fitting.values()), None))


def begin_with(model: Any, other: Any) -> str:
    """Put what another model has learnt into one; return why that cannot be, or nothing.

    Parameters
    ----------
    model
        As `why_unfit` allows it.
    other
        Nobody else's: its parts are taken over.
    """
    if type(model) is not type(other):
        return f"the model found is a {type(other).__name__}"
    return _copy_module(model, other) if _is_module(model) else _copy_estimator(model, other)


def note_beginning(worker: Any, artifact: ArtifactId, model: str, data: Sequence[str]) -> bool:
    """Tell the watch of variables what the running cell began with; False if there is none.

    Without it a model that began with another one could not be told from one that did not.

    Parameters
    ----------
    model
        The variable that is changed; the text of the cell does not tell.
    data
        The variables that decided with which one.
    """
    tell = getattr(getattr(worker, "variables", None), "began_with", None)
    if tell is None:
        return False
    tell(artifact, changes=(model,), reads=(model, *data))
    return True


# ---------------------------------------------------------------- scikit-learn


def _parameters(model: Any) -> dict[str, Any]:
    return dict(model.get_params(deep=False))


def _fitted(model: object) -> list[str]:
    """Return the attributes that fitting has set, by the rule of scikit-learn."""
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]


def _copy_estimator(model: Any, other: Any) -> str:
    mine, theirs = _parameters(model), _parameters(other)
    if not _fitted(other):
        return "the model found is not fitted"
    for name in sorted(_SHAPES & mine.keys()):
        if repr(mine[name]) != repr(theirs.get(name)):
            return f"the model found has {name}={theirs.get(name)!r}, this one {mine[name]!r}"
    members = getattr(other, "estimators_", None)
    count = mine.get("n_estimators")
    if members is not None and isinstance(count, int) and count <= len(members):
        return f"the model found has {len(members)} estimators: give n_estimators more than that"
    model.set_params(warm_start=True)
    for name, value in vars(other).items():
        if name not in mine:
            setattr(model, name, value)
    return ""


# ---------------------------------------------------------------- torch


def _is_module(model: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _copy_module(model: Any, other: Any) -> str:
    mine, theirs = model.state_dict(), other.state_dict()
    if mine.keys() != theirs.keys():
        return "the model found has other layers"
    for name, value in mine.items():
        if getattr(value, "shape", None) != getattr(theirs[name], "shape", None):
            return f"'{name}' of the model found has another shape"
    model.load_state_dict(theirs, strict=True)
    return ""
