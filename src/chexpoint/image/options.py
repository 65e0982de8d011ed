"""Options of libraries that only images keep; for reuse, the text of cells tells of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

_CSV_LIMIT = 131_072
_CSV_DIALECTS = {"excel", "excel-tab", "unix"}
_DIALECT = (
    "delimiter",
    "doublequote",
    "escapechar",
    "lineterminator",
    "quotechar",
    "quoting",
    "skipinitialspace",
    "strict",
)
_LOCALE = ("LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY")
_CUDNN = ("enabled", "benchmark", "deterministic", "allow_tf32")


def options_now() -> dict[str, Any]:
    """Return the options of the libraries that are loaded, where they differ from the usual."""
    found = {
        name: get(sys.modules[name]) for name, (get, _) in OPTIONS.items() if name in sys.modules
    }
    return {f"options:{name}": options for name, options in found.items() if options}


def set_options(states: Mapping[str, Any]) -> None:
    """Put such options in place."""
    for name, (_, put) in OPTIONS.items():
        options = states.get(f"options:{name}")
        if options:
            put(importlib.import_module(name), options)


def _csv_options(csv: Any) -> dict[str, Any]:
    names = set(csv.list_dialects()) - _CSV_DIALECTS
    dialects = {
        name: {key: getattr(csv.get_dialect(name), key) for key in _DIALECT} for name in names
    }
    limit = csv.field_size_limit()
    return {"limit": limit, "dialects": dialects} if dialects or limit != _CSV_LIMIT else {}


def _set_csv(csv: Any, options: dict[str, Any]) -> None:
    csv.field_size_limit(options["limit"])
    for name, dialect in options["dialects"].items():
        csv.register_dialect(name, **dialect)


def _locale_options(locale: Any) -> dict[str, str]:
    now = {name: locale.setlocale(getattr(locale, name)) for name in _LOCALE}
    return {name: value for name, value in now.items() if value != "C"}


def _set_locale(locale: Any, options: dict[str, str]) -> None:
    for name, value in options.items():
        locale.setlocale(getattr(locale, name), value)


def _keras_options(keras: Any) -> dict[str, Any]:
    tracker = sys.modules.get("keras.src.backend.common.global_state")
    if tracker is None:
        return {}
    import numpy as np

    seeds = tracker.get_global_attribute("global_seed_generator")
    return {
        "seeds": None if seeds is None else np.array(seeds.state),
        "floatx": keras.config.floatx(),
        "policy": keras.config.dtype_policy().name,
    }


def _set_keras(keras: Any, options: dict[str, Any]) -> None:
    keras.config.set_floatx(options["floatx"])
    keras.config.set_dtype_policy(options["policy"])
    if options["seeds"] is not None:
        random = importlib.import_module("keras.src.random.seed_generator")
        random.global_seed_generator().state.assign(options["seeds"])


def _torch_options(torch: Any) -> dict[str, Any]:
    cudnn = torch.backends.cudnn
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
        "check_nan": torch.is_anomaly_check_nan_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "cudnn": {name: getattr(cudnn, name) for name in _CUDNN},
        "print": dict(vars(torch._tensor_str.PRINT_OPTS)),
        # Sums of floats depend on it.
        "threads": torch.get_num_threads(),
    }


def _set_torch(torch: Any, options: dict[str, Any]) -> None:
    torch.use_deterministic_algorithms(options["deterministic"], warn_only=options["warn_only"])
    torch.autograd.set_detect_anomaly(options["anomalies"], options["check_nan"])
    torch.set_float32_matmul_precision(options["precision"])
    for name, value in options["cudnn"].items():
        setattr(torch.backends.cudnn, name, value)
    torch.set_printoptions(**options["print"])
    if torch.get_num_threads() != options["threads"]:
        torch.set_num_threads(options["threads"])


# How to get and set the options of a library.
OPTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]] = {
    "csv": (_csv_options, _set_csv),
    "keras": (_keras_options, _set_keras),
    "locale": (_locale_options, _set_locale),
    "sklearn": (
        lambda sklearn: sklearn.get_config(),
        lambda sklearn, options: sklearn.set_config(**options),
    ),
    "torch": (_torch_options, _set_torch),
}
