"""How good models are: what the user says, and what a cell computes in a way that is known."""

from __future__ import annotations

import ast
import contextlib
import math
import numbers
import warnings
from collections.abc import Iterator, Mapping

from chexpoint.engine.variable_meta import is_estimator
from chexpoint.engine.variable_reads import CellUses
from chexpoint.model import ModelScore

_BETTER_HIGH = frozenset(
    {
        "accuracy_score",
        "adjusted_mutual_info_score",
        "adjusted_rand_score",
        "average_precision_score",
        "balanced_accuracy_score",
        "cohen_kappa_score",
        "d2_absolute_error_score",
        "explained_variance_score",
        "f1_score",
        "fbeta_score",
        "jaccard_score",
        "matthews_corrcoef",
        "ndcg_score",
        "normalized_mutual_info_score",
        "precision_score",
        "r2_score",
        "recall_score",
        "roc_auc_score",
        "top_k_accuracy_score",
        "v_measure_score",
    }
)
_BETTER_LOW = frozenset(
    {
        "brier_score_loss",
        "hamming_loss",
        "hinge_loss",
        "log_loss",
        "max_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_gamma_deviance",
        "mean_pinball_loss",
        "mean_poisson_deviance",
        "mean_squared_error",
        "mean_squared_log_error",
        "median_absolute_error",
        "root_mean_squared_error",
        "root_mean_squared_log_error",
        "zero_one_loss",
    }
)
_METRICS = _BETTER_HIGH | _BETTER_LOW
_SCORING = _METRICS | {"score"}
_PREDICTIONS = ("predict", "decision_function")


class Scores:
    """What `score` was told while a cell runs; models are known by their ids alone."""

    def __init__(self) -> None:
        self._told: list[tuple[int, float]] = []

    def begin(self) -> None:
        """Listen."""
        global _listening  # noqa: PLW0603  the cell that runs is one of the process
        self._told = []
        _listening = self

    def tell(self, model: object, value: float) -> None:
        """Take a score."""
        self._told.append((id(model), value))

    def finish(self, uses: CellUses, names: Mapping[str, object]) -> list[ModelScore]:
        """Return the scores of models that are variables after the cell."""
        global _listening  # noqa: PLW0603
        _listening = None
        told = dict(self._told)
        self._told = []
        found = [
            ModelScore(name=name, value=told[id(value)], how="chexpoint.score")
            for name, value in names.items()
            if id(value) in told
        ]
        with contextlib.suppress(Exception):
            if uses.tree is not None and not _SCORING.isdisjoint(uses.words):
                found += recognised(uses.tree, names)
        return found


_listening: Scores | None = None


def score(model: object, value: float) -> None:
    """Tell how good a model is, higher for better, so that the graph finds the best one.

    Parameters
    ----------
    model
        One that a variable of the notebook holds.
    value
        A number.
    """
    number = number_of(value)
    if number is None:
        warnings.warn(
            f"chexpoint.score wants a number, not {value!r:.40}; it is not noted.",
            stacklevel=2,
        )
    elif _listening is not None:
        _listening.tell(model, number)


def number_of(value: object) -> float | None:
    """Return a value as a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    with contextlib.suppress(Exception):
        number = float(value)
        return number if math.isfinite(number) else None
    return None


def recognised(tree: ast.Module, names: Mapping[str, object]) -> Iterator[ModelScore]:
    """Yield the scores that assignments in a cell compute from a model's predictions."""
    predicted: dict[str, str] = {}
    for node in _assignments(tree.body):
        (target,) = node.targets
        if not isinstance(target, ast.Name):
            continue
        model = _predictor(node.value)
        if model:
            predicted[target.id] = model
        model, how, sign = _scored(node.value, predicted)
        number = number_of(names.get(target.id))
        if model and number is not None and is_estimator(names.get(model)):
            yield ModelScore(name=model, value=sign * number, how=how)


def _assignments(body: list[ast.stmt]) -> Iterator[ast.Assign]:
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield statement
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _assignments(getattr(statement, part, []))


def _predictor(node: ast.expr) -> str:
    """Return the variable whose predictions an expression has, or nothing."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if (
                attribute.startswith(_PREDICTIONS)
            ):
                return name
    return ""


def _scored(value: ast.expr, predicted: Mapping[str, str]) -> tuple[str, str, int]:
    """Return the model that an expression scores, how, and the sign that makes higher better."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="score")):
            return name, ".score", 1
        case ast.Call(func=ast.Name(id=metric) | ast.Attribute(attr=metric)):
            if metric not in _METRICS:
                return "", "", 1
        case _:
            return "", "", 1
    arguments = (*value.args, *(each.value for each in value.keywords))
    models = [_predictor(each) for each in arguments]
    models += [
        predicted[node.id]
        for each in arguments
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and node.id in predicted
    ]
    model = next(filter(None, models), "")
    if metric in _BETTER_LOW:
        return model, f"neg_{metric}", -1
    return model, metric, 1
