"""Parameters are read as papermill reads them, and several values give several versions."""

from __future__ import annotations

from typing import Any

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.project.parameters import (
    MOST_VERSIONS,
    combinations,
    parameters_source,
    parse_parameter,
)


def values(option: str) -> list[Any]:
    return [parameter.value for parameter in parse_parameter(option)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-3", -3),
        ("1_000", 1000),
        ("0.1", 0.1),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("True", True),
        ("true", True),
        ("False", False),
        ("false", False),
        ("None", None),
        ("null", None),
        ("", ""),
        ("adam", "adam"),
        ("a b", "a b"),
        ("a=b", "a=b"),
        ("it's", "it's"),
        ('"1"', "1"),
        ("'a,b'", "a,b"),
        ('"12:30"', "12:30"),
        ("[1, 2]", [1, 2]),
        ("[]", []),
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("['a', 'b']", ["a", "b"]),
        ("{'a': (1,)}", "{'a': (1,)}"),
        ("[1, 2", "[1, 2"),
        ("[a]", "[a]"),
        ('"open', '"open'),
        ("a:b", "a:b"),
        ("1:2:x", "1:2:x"),
        ("12:05:00", "12:05:00"),
        ("1:2:3:4", "1:2:3:4"),
        ("1.5:a", "1.5:a"),
        ("2024-01-01", "2024-01-01"),
        ("データ", "データ"),
    ],
)
def test_one_value(text: str, value: Any) -> None:
    (found,) = values(f"x={text}")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1,0.01", [0.1, 0.01]),
        ("a,,b", ["a", "", "b"]),
        ("[1,2],[3]", [[1, 2], [3]]),
        ('"a,b",c', ["a,b", "c"]),
        ("it's,that's", ["it's", "that's"]),
        ('{"a": "x,y"},2', [{"a": "x,y"}, 2]),
        ('"a\\",b",c', ['a",b', "c"]),
        ("2:6", [2, 3, 4, 5, 6]),
        ("-1:1", [-1, 0, 1]),
        ("3:3", [3]),
        ("1,4:6,True", [1, 4, 5, 6, True]),
        ("16:64:16", [16, 32, 48, 64]),
        ("1:6:2", [1, 3, 5]),
        ("6:0:-3", [6, 3, 0]),
        ("-4:4:4,9", [-4, 0, 4, 9]),
        ("1,1.0,True", [1, 1.0, True]),
        ('1,"1"', [1, "1"]),
    ],
)
def test_several_values(text: str, expected: list[Any]) -> None:
    assert values(f"x={text}") == expected


@pytest.mark.parametrize(
    "text",
    ["1", "0.1", "-2", "1e400", "nan", "true", "null", '"a\'\\n"', '[1, [2.5, null], {"a": NaN}]'],
)
def test_the_cell_gives_the_value(text: str) -> None:
    (parameter,) = parse_parameter(f"x={text}")
    space: dict[str, Any] = {}
    exec(parameters_source([parameter]), space)  # noqa: S102 - it is made of values here
    assert repr(space["x"]) == repr(parameter.value)


def test_the_cell_is_that_of_papermill() -> None:
    (both,) = combinations(["lr=0.1", "name=adam"])
    assert parameters_source(both) == "# Parameters\nlr = 0.1\nname = 'adam'"


def test_versions_are_all_combinations_in_order() -> None:
    found = combinations(["lr=0.1,0.01", "depth=2:3"])
    assert [[parameter.text for parameter in each] for each in found] == [
        ["0.1", "2"],
        ["0.1", "3"],
        ["0.01", "2"],
        ["0.01", "3"],
    ]
    assert combinations([]) == ((),)


@pytest.mark.parametrize("name", ["1x", "a-b", "", "class", "a.b", "a b", "None"])
def test_names_are_those_of_variables(name: str) -> None:
    with pytest.raises(InvalidValue, match="cannot be the name"):
        parse_parameter(f"{name}=1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["x"], "write -p NAME=VALUE"),
        (["x=1", "x=2"], "x is set twice"),
        (["x=3:1"], "a range goes up"),
        (["x=3:1:2"], "a range goes up, as in 1:3:2"),
        (["x=1:3:-1"], "a range goes down, as in 3:1:-1"),
        (["x=1:3:0"], "goes nowhere"),
        (["x=0.1:0.5"], "of whole numbers"),
        (["x=1:2:0.5"], "of whole numbers"),
        (["x=1,2,1"], "x is to be 1 twice"),
        (["x=1:3,2"], "x is to be 2 twice"),
        (["x=0:900000000000000000:1"], "at most"),
        (["x=1:100000"], "at most"),
        (["x=1:1000", "y=1:1000"], "1000000 versions"),
        ([f"x=1:{MOST_VERSIONS + 1}"], str(MOST_VERSIONS)),
        ([f"x={'9' * 5000}"], "too long"),
    ],
)
def test_what_cannot_be_is_refused(options: list[str], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        combinations(options)


def test_names_are_the_same_that_python_sees() -> None:
    (parameter,) = parse_parameter("ﬁne=1")
    assert parameter.name == "fine"


def test_deep_nesting_is_a_text() -> None:
    text = "[" * 10_000
    assert values(f"x={text}") == [text]
