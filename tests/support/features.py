"""The register of feature checks: statements about ipykernel that must hold of CHEX as well."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.support import checks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kernels import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One check and what it needs."""

    name: str
    check: Callable[[Kernel], None]
    own_kernel: bool
    """The check ends or spoils its kernel, or needs it untouched."""
    transport: Literal["tcp", "ipc"]
    encrypted: bool
    untrue_of_stock: str | None
    """Why the check does not hold of the stock kernel, where it does not."""


_REGISTER: list[Feature] = []


def feature(
    *,
    own_kernel: bool = False,
    transport: Literal["tcp", "ipc"] = "tcp",
    encrypted: bool = False,
    untrue_of_stock: str | None = None,
) -> Callable[[Callable[[Kernel], None]], Callable[[Kernel], None]]:
    """Register a function `check_<name>(kernel)` as a feature check."""

    def register(check: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
        _REGISTER.append(
            Feature(
                name=check.__name__.removeprefix("check_"),
                check=check,
                own_kernel=own_kernel,
                transport=transport,
                encrypted=encrypted,
                untrue_of_stock=untrue_of_stock,
            )
        )
        return check

    return register


def all_features() -> list[Feature]:
    """Every registered check, in the order of the modules' names."""
    for module in pkgutil.iter_modules(checks.__path__):
        importlib.import_module(f"{checks.__name__}.{module.name}")
    return list(_REGISTER)
