"""What the verbs that look into a store share: where it is, and its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chexpoint.errors import InvalidValue
from chexpoint.model import Bytes, parse_size

if TYPE_CHECKING:
    from chexpoint.project import Project
    from chexpoint.store import Store


def opened_store(project: Project, *, budget_bytes: Bytes | None = None) -> Store:
    """Return the store of a project.

    Raises
    ------
    InvalidValue
        If there is none yet.
    StoreError
        If it cannot be read, or was written by a newer CHEX.
    """
    from chexpoint.store import Store

    if not project.store_folder.is_dir():
        raise InvalidValue(
            f"nothing is kept on disk in {project.folder} yet: run %chex_persist on in a notebook "
            "there first"
        )
    return Store.open(project.store_folder, budget_bytes=budget_bytes, create=False)


def store_budget(project: Project, given: str | None = None) -> Bytes | None:
    """Return the most that the store of a project may take: as given, or as set.

    Raises
    ------
    InvalidValue
        If that is no size.
    """
    if given is not None:
        return parse_size(given)
    from chexpoint.config import Config

    return Config.at(project.folder).size("store_budget")
