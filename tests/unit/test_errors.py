"""Errors survive pickling, and suggest what was meant."""

from __future__ import annotations

import pickle

import pytest

from chexpoint import errors
from chexpoint.model import Hazard

HAZARD = Hazard(kind="threads", what="thread 'a' is running", advice="join it first")


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidValue("x"),
        errors.WorkerDied("x"),
        errors.EngineTimeout("x"),
        errors.ForkRefused((HAZARD,)),
        errors.UnknownCheckpoint("helo", ("hello", "other")),
    ],
    ids=lambda e: type(e).__name__,
)
def test_pickled_errors_say_the_same(error: errors.ChexError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_closest_names_are_suggested() -> None:
    assert "Did you mean hello?" in str(errors.UnknownCheckpoint("helo", ("hello", "zzz")))
    assert "Known: one, two." in str(errors.UnknownCheckpoint("xyz", ("one", "two")))
    assert "takes one" in str(errors.UnknownCheckpoint("xyz"))


def test_every_error_has_an_exit_code() -> None:
    found = [e for e in vars(errors).values() if isinstance(e, type)]
    codes = {e.exit_code for e in found if issubclass(e, errors.ChexError)}
    assert codes == {1, 2}
