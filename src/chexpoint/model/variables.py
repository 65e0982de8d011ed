"""What cells do to variables.

A *group* is one variable, or several that share objects and so can only be stored and loaded
together.  Names that begin with a colon are no variables but states of the process, such as that of
NumPy's random numbers (``:numpy:random``); they are treated like variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chexpoint.model.ids import ArtifactId, Bytes, Digest, OperationId, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableGroup:
    """Variables that share objects, as a cell left them."""

    names: tuple[str, ...]
    """Sorted."""
    kinds: tuple[str, ...]
    """The type of each, as the user knows it: ``pandas.DataFrame``."""
    size_bytes: Bytes = 0
    digest: Digest = ""
    """Of the contents; empty if they were not looked at."""
    parts: tuple[tuple[Digest, Bytes], ...] = ()
    """Digests and sizes of the arrays in it: what two groups have in common is stored once."""
    reaches: tuple[str, ...] = ()
    """Other variables that functions in it use when they are called."""
    meta: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each variable what is worth knowing: columns, shape, hyperparameters."""
    why_not: str = ""
    """Why the contents cannot be stored."""
    contents: str = field(default="", repr=False)
    """They themselves where they are little: base64 of a compressed stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelScore:
    """How good a model is, as its user has found."""

    name: str
    """The variable that holds the model."""
    value: float
    how: str
    """What told it: ``chexpoint.score``, ``.score``, ``accuracy_score``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVariables:
    """What a cell had to do with variables."""

    reads: tuple[str, ...] = ()
    """All that it may depend on of what was there before it; it errs on the side of more."""
    writes: tuple[VariableGroup, ...] = ()
    """What is new or changed, or belongs to another group than before."""
    deleted: tuple[str, ...] = ()
    sticky: str = ""
    """Why it cannot be passed over if any later cell is to run: it changes more than variables."""
    scores: tuple[ModelScore, ...] = ()
    warm: tuple[ArtifactId, ...] = ()
    """Models that it began with."""
    operation: OperationId | None = None
    """What it is an instance of, if it was not run here; else that follows from the rest."""
    seconds: Seconds = 0.0
    """What finding this out took."""


def variables_from_json(data: dict[str, Any]) -> CellVariables:
    """Return what `to_json` wrote.

    Raises
    ------
    TypeError, KeyError
        If it is something else.
    """
    writes = tuple(group_from_json(each) for each in data["writes"])
    scores = tuple(ModelScore(**each) for each in data["scores"])
    plain = {key: tuple(data[key]) for key in ("reads", "deleted", "warm")}
    return CellVariables(**{**data, **plain, "writes": writes, "scores": scores})


def group_from_json(data: dict[str, Any]) -> VariableGroup:
    """Return the group that `to_json` wrote."""
    plain = {key: tuple(data[key]) for key in ("names", "kinds", "reaches")}
    parts = tuple((str(digest), int(size)) for digest, size in data["parts"])
    return VariableGroup(**{**data, **plain, "parts": parts})
