"""Scores of models: those that are told, and those that are recognised."""

from __future__ import annotations

import math

import pytest

from chexpoint.engine.variable_scores import score
from tests.support.watched import Watched

FIT = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, mean_squared_error
import sklearn.metrics as sm
X = np.arange(20.0).reshape(10, 2); y = np.arange(10) > 4
m = LogisticRegression().fit(X, y)
"""


def scores(cell: str) -> list[tuple[str, str]]:
    notebook = Watched()
    notebook.names["score"] = score
    notebook.run(FIT)
    return [(each.name, each.how) for each in notebook.run(cell).scores]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("s = m.score(X, y)", [("m", ".score")]),
        ("s = accuracy_score(y, m.predict(X))", [("m", "accuracy_score")]),
        ("p = m.predict_proba(X)[:, 1]\ns = sm.roc_auc_score(y, p)", [("m", "roc_auc_score")]),
        ("s = mean_squared_error(y, m.predict(X))", [("m", "neg_mean_squared_error")]),
        ("score(m, 0.7)", [("m", "chexpoint.score")]),
        ("m.score(X, y)", []),
        ("s = accuracy_score(y, y)", []),
        ("class A:\n    def score(self): return 1.0\na = A()\ns = a.score()", []),
        ("s = (m.score(X, y), 1)", []),
    ],
)
def test_scores(cell: str, expected: list[tuple[str, str]]) -> None:
    assert scores(cell) == expected


@pytest.mark.parametrize("value", [True, "0.7", math.nan, math.inf, None, [1]])
def test_what_is_no_number_is_told_once(value: object) -> None:
    with pytest.warns(UserWarning, match=r"chexpoint\.score wants a number"):
        score(object(), value)  # type: ignore[arg-type]


def test_without_a_watch_it_does_nothing() -> None:
    score(object(), 0.5)
