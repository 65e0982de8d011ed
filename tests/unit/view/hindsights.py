"""Results of replays in hindsight to look at."""

from __future__ import annotations

from chexpoint.model import (
    HindsightFinding,
    HindsightResult,
    HindsightRow,
    LoggedValue,
    Standing,
)


def row(
    epoch: int,
    value: object,
    *,
    step: int | None = None,
    name: str = "norm",
    version: str = "base",
    standing: Standing = "exact",
    is_added: bool = True,
    loop: int = 0,
) -> HindsightRow:
    """Return a row of an epoch, or of a step in it."""
    inner = () if step is None else (("step", step),)
    return HindsightRow(
        version=version,
        value=LoggedValue(
            loop=loop,
            at=(epoch,) if step is None else (epoch, step),
            labels=(("epoch", epoch), *inner),
            line=7,
            via="print",
            name=name,
            value=value,
        ),
        standing=standing,
        is_added=is_added,
    )


def result(*rows: HindsightRow, version: str = "base", **fields: object) -> HindsightResult:
    """Return what replaying a version gave."""
    values: dict[str, object] = {
        "version": version,
        "rows": rows,
        "iterations": 2,
        "seconds": 2.1,
        "recorded_seconds": 80.3,
    }
    return HindsightResult(**{**values, **fields})  # type: ignore[arg-type]


FINDING = HindsightFinding(
    loop=0, at=(3,), what="before epoch 4, model:w differs", leaves=("model:w",), missed=("model",)
)
