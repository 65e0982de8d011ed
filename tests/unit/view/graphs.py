"""A small experiment graph: data, features, two models, and something that cannot be stored."""

from __future__ import annotations

from typing import Any

from chexpoint.graph import ExperimentGraph
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Operation,
    OperationId,
    Read,
    StoredArtifact,
    VariableGroup,
)

RAW, TRAIN, LABELS = (ArtifactId(each * 32) for each in ("a", "b", "c"))
FOREST, LOGIT, LOCK, SEED = (ArtifactId(each * 32) for each in ("d", "e", "f", "1"))
MB = 2**20


def artifact(ident: ArtifactId, operation: str, name: str, kind: str, **more: Any) -> Artifact:
    """Return an artifact of one variable."""
    group = {"meta": {}, "size_bytes": MB, "why_not": "", "digest": ""}
    group |= {key: more.pop(key) for key in tuple(more) if key in group}
    return Artifact(
        id=ident,
        operation=OperationId(operation),
        group=VariableGroup(names=(name,), kinds=(kind,), **group),  # type: ignore[arg-type]
        **more,
    )


def operation(
    name: str,
    source: str,
    seconds: float,
    *,
    reads: dict[str, ArtifactId] | None = None,
    **more: Any,
) -> Operation:
    """Return an operation."""
    return Operation(
        id=OperationId(name),
        code=f"code-{name}",
        packages="packages",
        source=source,
        seconds=seconds,
        reads=tuple(Read(name=key, artifact=each) for key, each in (reads or {}).items()),
        **more,
    )


def small_graph() -> ExperimentGraph:
    """Return the graph: everything takes 35 s, and what is stored saves most of it."""
    image = StoredArtifact(image="artifact-train", stored_bytes=20 * MB, load_s=0.1)
    forest = {"role": "model", "class": "RandomForestClassifier", "parameters": {"n_estimators": 9}}
    return ExperimentGraph.of(
        [
            operation("load", "raw = pd.read_csv('<data>.csv')", 2.0, time=1.0),
            operation(
                "clean", "train = clean(raw)", 10.0, reads={"raw": RAW}, time=2.0, frequency=3
            ),
            operation("label", "y = train['bad']", 0.01, reads={"train": TRAIN}, time=3.0),
            operation(
                "fit", "clf = fit(train, y)", 20.0, reads={"train": TRAIN, "y": LABELS}, time=4.0
            ),
            operation(
                "fit2", "logit = fit2(train, y)", 3.0, reads={"train": TRAIN, "y": LABELS}, time=5.0
            ),
            operation("lock", "lock = Lock()", 0.001, time=6.0, doubt="it reads the clock"),
        ],
        [
            artifact(RAW, "load", "raw", "pandas.DataFrame", size_bytes=50 * MB),
            artifact(
                TRAIN,
                "clean",
                "train",
                "pandas.DataFrame",
                size_bytes=40 * MB,
                digest="d0",
                meta={"train": {"rows": 1000, "columns": ["age", "city"]}},
                stored=image,
                frequency=3,
            ),
            artifact(LABELS, "label", "y", "pandas.Series", stored=StoredArtifact(image="")),
            artifact(
                FOREST,
                "fit",
                "clf",
                "sklearn.ensemble.RandomForestClassifier",
                meta={"clf": forest},
                score=0.91,
                stored=StoredArtifact(image="artifact-clf", stored_bytes=MB, load_s=0.01),
            ),
            artifact(
                LOGIT,
                "fit2",
                "logit",
                "sklearn.linear_model.LogisticRegression",
                meta={"logit": {"role": "model", "class": "LogisticRegression"}},
                score=0.85,
            ),
            artifact(LOCK, "lock", "lock", "_thread.lock", why_not="a lock ends with its process"),
            artifact(SEED, "load", ":random", "random"),
        ],
    )
