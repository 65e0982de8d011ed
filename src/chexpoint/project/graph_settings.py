"""Where the experiment graph of a project is, and what may be stored for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from chexpoint.config import Config
from chexpoint.model import Bytes, KeepStrategy
from chexpoint.project.project import FOLDER

DEFAULT_BUDGET = 4 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """What a user has chosen."""

    ledger: str
    """A file or a database URL; empty if there is to be no graph."""
    is_shared: bool = False
    """Whether the user has named one: then it learns of all cells, else only where it is used."""
    store: str
    """Where contents go: a folder or an fsspec URL; empty if only little ones are kept."""
    budget_bytes: Bytes = DEFAULT_BUDGET
    strategy: KeepStrategy = "storage-aware"
    alpha: float = 0.5
    """How much the quality of models counts against the time that is saved."""


def graph_settings(folder: Path, config: Config) -> GraphSettings:
    """Return where the graph of a project folder is, by what the user has set.

    Raises
    ------
    InvalidValue
        If a setting has no sense.
    """
    place = config.word("graph")
    if place in {"off", "none"}:
        return GraphSettings(ledger="", store="")
    own = folder / FOLDER
    ledger = place or str(own / "graph.sqlite")
    store = config.word("graph_store")
    if not store and not place:
        store = str(own / "store")
    elif not store and "://" not in place:
        store = str(Path(place).absolute().with_suffix(".artifacts"))
    budget, alpha = config.size("graph_budget"), config.share("graph_alpha")
    return GraphSettings(
        ledger=ledger,
        is_shared=bool(place),
        store=store,
        budget_bytes=DEFAULT_BUDGET if budget is None else budget,
        strategy=cast("KeepStrategy", config.word("graph_keep")),
        alpha=0.5 if alpha is None else alpha,
    )
