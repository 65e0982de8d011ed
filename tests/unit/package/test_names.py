"""Names that are safe are known from those that are not."""

from __future__ import annotations

import pytest

from chexpoint.package.names import (
    digest_of_member,
    file_member,
    is_member_name,
    is_project_name,
    is_version_name,
    notebook_members,
    plain,
)


def test_contents_are_found_by_their_member() -> None:
    digest = "ab" * 16
    assert file_member(digest) == f"files/ab/{digest}"
    assert digest_of_member(file_member(digest)) == digest
    assert digest_of_member(f"files/cd/{digest}") is None
    assert digest_of_member("chex.json") is None


@pytest.mark.parametrize("name", ["./a", "./a/b c", "./.git/config", "./日本", "./a\n", "./\udce9"])
def test_any_file_of_the_project_may_be_named(name: str) -> None:
    assert is_project_name(name)


@pytest.mark.parametrize(
    "name", ["a", "/a", "~/a", "./", "./..", "./a/../b", "./a//b", "./a/.", "."]
)
def test_no_other_file_may(name: str) -> None:
    assert not is_project_name(name)


def test_versions_may_have_letters_of_all_languages() -> None:
    assert is_version_name("größe-2.0+x=1,y")
    assert not is_version_name("a/b")
    assert not is_version_name("...")
    assert not is_version_name("a" * 101)


def test_notebooks_are_named_after_versions_and_never_alike() -> None:
    found = notebook_members(["base", "Base", "base@1", "größe", "grö_e", ".hidden", "base-2"])
    assert found["base"] == "notebooks/base.ipynb"
    assert found["base@1"] == "notebooks/base@1.ipynb"
    assert len({name.lower() for name in found.values()}) == len(found)
    assert all(map(is_member_name, found.values()))


def test_what_is_shown_stays_on_its_line() -> None:
    assert plain("a\n b\t\x1b[0m é \udce9") == "a b \\x1b[0m é \\udce9"
