"""Why a variable is what it is, and trainings that begin where another one has ended."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from IPython.core.error import UsageError
from sklearn.ensemble import (  # type: ignore[import-untyped]
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier  # type: ignore[import-untyped]
from sklearn.neighbors import KNeighborsClassifier  # type: ignore[import-untyped]
from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]

from chexpoint.errors import InvalidValue
from chexpoint.magics.graph_show import made_on, why_lines
from chexpoint.magics.graph_warm import (
    begin_with,
    bindings_of,
    changed_before,
    chosen_from,
    fetched_values,
    identities,
    note_beginning,
    why_unfit,
)
from chexpoint.model import (
    ArtifactId,
    CellAudit,
    CellLineage,
    CellVariables,
    NodeId,
    VariableGroup,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 5))
Y = (X[:, 0] > 0).astype(int)


def cell(number: int, source: str, variables: CellVariables | None, **more: Any) -> CellLineage:
    """Return a cell of a path."""
    return CellLineage(
        node=NodeId(f"n{number}"),
        parent=NodeId(f"n{number - 1}"),
        code=f"code-{number}",
        strict="",
        number=number,
        execution_count=number,
        source=source,
        audit=CellAudit(),
        seconds=1.5,
        size_bytes=0,
        variables=variables,
        **more,
    )


def wrote(*names: str, **facts: Any) -> CellVariables:
    """Return that a cell wrote one group of variables."""
    kinds = ("pandas.DataFrame",) * len(names)
    return CellVariables(writes=(VariableGroup(names=names, kinds=kinds, **facts),))


PATH = (
    cell(1, "# all of it\nraw = load()", wrote("raw", size_bytes=2**20, digest="d1")),
    cell(2, "a = b = raw", replace(wrote("a", "b"), reads=("raw",))),
    cell(3, "lock = Lock()", wrote("lock", why_not="a lock ends with its process")),
    cell(4, "del b", CellVariables(deleted=("b",))),
)


# ---------------------------------------------------------------- why


def test_each_variable_is_told_with_its_cell_and_the_reason() -> None:
    made = made_on(PATH)
    assert made is not None
    assert why_lines(["raw"], made, {"raw": "loaded, in about 0.1 s"}) == [
        "raw: DataFrame, 1.0 MB, of cell [1] 'raw = load()' (1.5 s)",
        "    loaded, in about 0.1 s",
    ]
    assert why_lines(["lock"], made, {})[1] == (
        "    computed here; it cannot be stored: a lock ends with its process"
    )
    assert "shares objects with b" in why_lines(["a"], made, {})[0]
    told = why_lines([], made, {})
    assert [line.partition(":")[0] for line in told if line[0] != " "] == ["a", "lock", "raw"]


def test_what_is_not_known_is_said() -> None:
    made = made_on(PATH)
    assert made is not None
    with pytest.raises(UsageError, match="no variable 'b' is known here"):
        why_lines(["b"], made, {})
    with pytest.raises(UsageError, match="No cell has made one yet"):
        why_lines(["b"], {}, {})
    assert made_on((*PATH, cell(5, "x = 1", None))) is None


# ---------------------------------------------------------------- which data


def test_data_is_known_by_its_lineage_and_its_contents() -> None:
    bindings = bindings_of(PATH)
    assert bindings is not None
    (raw, other) = identities(bindings, ["raw", "a"])
    assert raw == f"{bindings.variables['raw']},{bindings.digest('raw')}"
    assert other.endswith(",")
    with pytest.raises(InvalidValue, match="'b' is not in the graph"):
        identities(bindings, ["b"])
    assert bindings_of(()) is None
    assert bindings_of([cell(1, "x", None)]) is None
    after = bindings_of([*PATH, cell(5, "x", wrote("x"), status="error")])
    assert after is not None
    assert identities(after, ["raw"]) == [raw]


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        ("model = Forest()\n%chex_warmstart model --data X y\nmodel.fit(X, y)", ""),
        ("X = X[:10]\n%chex_warmstart model --data X y", "X"),
        ("y.sort()\n%chex_warmstart model --data X y", "y"),
        ("%matplotlib inline\n%chex_warmstart model --data X y", ""),
        ("exec(code)\n%chex_warmstart model --data X y", "X"),
    ],
)
def test_data_that_may_change_in_the_cell_is_noticed(lines: str, changed: str) -> None:
    assert changed_before(lines, "chex_warmstart", ["X", "y"]) == changed


# ---------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RandomForestClassifier(5, random_state=0), RandomForestClassifier(8, max_depth=3)),
        (LogisticRegression(), LogisticRegression(C=0.5, max_iter=7)),
        (SGDClassifier(), SGDClassifier(alpha=0.01)),
        (MLPClassifier((4,), max_iter=5), MLPClassifier((4,), max_iter=9)),
        (HistGradientBoostingClassifier(max_iter=5), HistGradientBoostingClassifier(max_iter=9)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_training_goes_on_where_the_other_ended(old: Any, new: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.fit(X, Y)
        assert why_unfit(new) == ""
        expected = old.predict(X).tolist()
        assert begin_with(new, old) == ""
        assert new.warm_start
        assert new.predict(X).tolist() == expected
        new.fit(X, Y)  # and it is content with what it got


def test_a_forest_keeps_the_trees_it_began_with() -> None:
    old = RandomForestClassifier(5, random_state=0).fit(X, Y)
    trees = list(old.estimators_)
    new = RandomForestClassifier(8)
    assert begin_with(new, old) == ""
    new.fit(X, Y)
    assert new.estimators_[:5] == trees
    assert len(new.estimators_) == 8


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (RandomForestClassifier(5), RandomForestClassifier(5), "give n_estimators more than"),
        (MLPClassifier((4,), max_iter=2), MLPClassifier((5,)), "hidden_layer_sizes=(4,)"),
        (LogisticRegression(), LogisticRegression(fit_intercept=False), "fit_intercept=True"),
        (LogisticRegression(), RandomForestClassifier(), "is a LogisticRegression"),
    ],
)
def test_what_does_not_fit_is_left_alone(old: Any, new: Any, why: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.fit(X, Y)
    before = dict(vars(new))
    assert why in begin_with(new, old)
    assert vars(new) == before


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (KNeighborsClassifier(), "has no warm_start"),
        (LogisticRegression().fit(X, Y), "is fitted already"),
        (LogisticRegression, "neither an estimator"),
        ([1], "neither an estimator"),
    ],
)
def test_what_cannot_begin_with_another_says_why(model: object, why: str) -> None:
    assert why in why_unfit(model)
    assert "not fitted" in begin_with(SGDClassifier(), SGDClassifier())


def test_modules_of_torch_take_over_all_weights_or_none() -> None:
    old, new = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    assert why_unfit(new) == ""
    assert begin_with(new, old) == ""
    assert torch.equal(old.weight, new.weight)
    wide = torch.nn.Linear(4, 2)
    before = wide.weight.clone()
    assert "another shape" in begin_with(wide, old)
    assert torch.equal(wide.weight, before)
    assert "other layers" in begin_with(torch.nn.Linear(3, 2, bias=False), old)


def test_the_model_of_a_group_is_found_by_its_class() -> None:
    old = SGDClassifier()
    values = {"data": [1], "clf": old, "model": LogisticRegression()}
    assert chosen_from(values, SGDClassifier(), "model") is old
    assert chosen_from({"data": [1]}, old, "model") is None


def test_the_watch_is_told_or_nothing_begins() -> None:
    class Variables:
        def __init__(self) -> None:
            self.told: list[Any] = []

        def began_with(self, artifact: ArtifactId, **names: Any) -> None:
            self.told.append((artifact, names))

    class Worker:
        def __init__(self, variables: object) -> None:
            self.variables = variables

    variables = Variables()
    assert note_beginning(Worker(variables), ArtifactId("a"), "model", ["X"])
    assert variables.told == [("a", {"changes": ("model",), "reads": ("model", "X")})]
    assert not note_beginning(Worker(None), ArtifactId("a"), "model", ["X"])


def test_what_was_fetched_is_removed_also_if_it_cannot_be_loaded(tmp_path: Path) -> None:
    from chexpoint.store import Store

    key = bytes(range(32))
    with Store.open(tmp_path / "fetched", key=key) as store:
        store.put("artifact-x", {"no": "image"}, streams={"s": b"x"}, arrays={})
    fetched = {"contents": "", "key": key.hex(), "names": ["x"], "image": "artifact-x"}
    with pytest.raises(Exception, match="damaged"):
        fetched_values({**fetched, "store": str(tmp_path / "fetched")}, {})
    assert not (tmp_path / "fetched").exists()


@pytest.mark.slow
def test_elsewhere_the_graph_can_be_looked_at_and_the_rest_says_why_not(tmp_path: Path) -> None:
    script = tmp_path / "lines.ipy"
    # Each as a cell: a script would end with the first error.
    cells = [f"get_ipython().run_cell({each!r});" for each in ("%chex_graph", "%chex_why x")]
    script.write_text("\n".join(["%load_ext chexpoint", *cells]))
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--quick", "--colors=NoColor", script],
        cwd=tmp_path,
        env={"IPYTHONDIR": str(tmp_path / "profile"), "PATH": "/usr/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert "no .chex folder in" in told[-2]
    assert "this kernel has no checkpoints" in told[-1]
