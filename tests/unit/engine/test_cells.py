"""What the text of a request tells about its cell."""

from __future__ import annotations

import pytest

from chexpoint.engine.asks import CellText
from chexpoint.engine.cells import body_of, cell_text


def read(code: str, **content: object) -> CellText | None:
    return cell_text({"code": code, **content}, {"cellId": "id-1"})


def cell(code: str) -> CellText:
    found = read(code)
    assert found is not None
    return found


@pytest.mark.parametrize("content", [{"silent": True}, {"store_history": False}])
def test_what_a_front_end_asks_for_itself_is_no_cell(content: dict[str, object]) -> None:
    assert read("x", **content) is None


def test_an_ordinary_cell() -> None:
    found = cell("x = 1\nprint(x)")
    assert found == CellText("x = 1\nprint(x)", "id-1")
    assert found.needs_state
    assert found.is_reusable


@pytest.mark.parametrize(
    "code",
    [
        "%chex_status",
        "# a comment\n%chex_record v1 --here",
        "\n  %chex_tree --json\n",
        "%chex_log\n%chex_versions",
    ],
)
def test_magics_of_chex_alone_need_no_state(code: str) -> None:
    assert not cell(code).needs_state
    assert not cell(code).is_reusable


@pytest.mark.parametrize(
    "code",
    [
        "%chex_checkpoint here",
        "%chex_restore {name}",
        "%chex_restore $name",
        "%chex_status\nx = 1",
        "%chex_status \\\n x",
        "y = get_ipython().run_line_magic('chex_status', '')",
    ],
)
def test_anything_more_needs_the_state_and_is_run(code: str) -> None:
    assert cell(code).needs_state
    assert not cell(code).is_reusable


@pytest.mark.parametrize("code", ["", "\n", "# only a comment", "\n# one\n\n# two\n"])
def test_an_empty_cell_is_just_run(code: str) -> None:
    assert not cell(code).is_reusable


def test_expressions_of_the_front_end_need_the_state() -> None:
    found = read("x = 1", user_expressions={"a": "x"})
    assert found is not None
    assert not found.is_reusable


def test_the_first_line_may_name_a_version() -> None:
    found = cell("%%chex_record deeper\nx = 1\n")
    assert found.version == "deeper"
    assert found.is_reusable
    assert body_of(found.source).strip() == "x = 1"
    assert body_of("x = 1") == "x = 1"
    assert cell("%%chex_record\nx = 1").version == ""
    assert cell("%%chex_recorder deeper\nx = 1").version is None


def test_a_first_line_may_begin_a_version_for_the_code_below_it() -> None:
    found = cell("# notes\n%chex_record deeper  # again\nx = 1\n")
    assert found.begins == "deeper"
    assert found.is_reusable
    assert found.needs_state
    assert body_of(found.source).strip() == "x = 1"
    for code in (
        "%chex_record deeper",
        "%chex_record deeper\n# nothing",
        "%chex_record --off\nx = 1",
        "%chex_record deeper --here\nx = 1",
        "x = 1\n%chex_record deeper",
    ):
        assert cell(code).begins is None
        assert not cell(code).is_reusable
