"""Tests of what scikit-learn and Keras objects hold."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans  # type: ignore[import-untyped]
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier  # type: ignore[import-untyped]
from sklearn.linear_model import SGDClassifier  # type: ignore[import-untyped]
from sklearn.naive_bayes import GaussianNB  # type: ignore[import-untyped]
from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from tests.unit.hindsight.state_kit import Kept, digests

Roots = dict[str, Any]

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(120, 30))
LABELS = RNG.integers(0, 3, size=120)


@pytest.mark.parametrize(
    "model",
    [
        SGDClassifier(random_state=np.random.RandomState(1)),
        MLPClassifier((16,), random_state=np.random.RandomState(2), batch_size=20),
        MiniBatchKMeans(3, random_state=3, n_init=1),
        StandardScaler(),
        GaussianNB(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_partial_fit_goes_on_bit_for_bit(model: Any) -> None:
    def fit() -> None:
        if hasattr(model, "classes_") or hasattr(model, "predict_proba"):
            model.partial_fit(INPUTS, LABELS, classes=[0, 1, 2])
        elif hasattr(model, "decision_function"):
            model.partial_fit(INPUTS, LABELS, [0, 1, 2])
        else:
            model.partial_fit(INPUTS)

    roots: Roots = {"model": model}
    before = Kept(roots)
    fit()
    middle = Kept(roots)
    fit()
    after = digests(roots)
    assert before.changed(roots)
    assert middle.put_back(roots) == {}
    fit()
    assert digests(roots) == after
    before.put_back(roots)
    assert not hasattr(model, "n_features_in_")
    fit()
    fit()
    assert digests(roots) == after


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(2, warm_start=True, random_state=0),
        GradientBoostingClassifier(n_estimators=2, warm_start=True, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_warm_start_goes_on(model: Any) -> None:
    roots: Roots = {"model": model}
    model.fit(INPUTS, LABELS)
    before = Kept(roots)
    model.set_params(n_estimators=4).fit(INPUTS, LABELS)
    expected = model.predict_proba(INPUTS)
    before.put_back(roots)
    assert model.n_estimators == 2
    model.set_params(n_estimators=4).fit(INPUTS, LABELS)
    assert (model.predict_proba(INPUTS) == expected).all()


def test_arrays_are_leaves_and_steps_of_a_pipeline_are_found() -> None:
    model = make_pipeline(StandardScaler(), SGDClassifier(random_state=0, max_iter=5, tol=None))
    model.fit(np.tile(INPUTS, 10), LABELS)
    roots: Roots = {"model": model, "last": model[-1]}
    before = Kept(roots)
    assert "last:coef_" in before.survey.leaves
    assert "model:#0" in before.survey.leaves
    scaler = model[0]
    coefficients = model[-1].coef_
    coefficients += 1
    assert before.changed(roots) == {"last:coef_"}
    before.put_back(roots)
    assert model[-1].coef_ is coefficients
    assert model[0] is scaler


KERAS = """
import keras
import numpy as np
from tests.unit.hindsight.state_kit import Kept, digests

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.Input((10,)), keras.layers.Dense(30, "relu"), keras.layers.BatchNormalization(),
     keras.layers.Dropout(0.3), keras.layers.Dense(1)]
)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
inputs, targets = np.random.randn(64, 10), np.random.randn(64, 1)
roots = {"model": model, "history": []}

def epoch():
    for start in range(0, 64, 16):
        model.train_on_batch(inputs[start : start + 16], targets[start : start + 16])
    roots["history"].append(float(keras.ops.sum(keras.random.normal((2,)))))

epoch()
before = Kept(roots)
epoch()
changed = before.changed(roots)
assert "model:sequential/dense/kernel" in changed, changed
assert any(name.startswith("model.optimizer:") for name in changed), changed
middle = Kept(roots)
epoch()
after = digests(roots)
middle.put_back(roots)
epoch()
assert digests(roots) == after
before.put_back(roots)
epoch()
epoch()
assert digests(roots) == after
print("as expected")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("keras") is None, reason="needs Keras")
def test_a_keras_model_goes_on_bit_for_bit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KERAS],
        env={**os.environ, "KERAS_BACKEND": "torch"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "as expected", done.stderr
