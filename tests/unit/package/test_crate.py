"""The metadata file follows RO-Crate 1.1, section by section."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from tests.unit.package.worlds import DATA, digest, full_recording, members_of, packed

Entity = dict[str, Any]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return members_of(packed(tmp_path_factory.mktemp("crate"), full_recording()))


@pytest.fixture(scope="module")
def entities(members: dict[str, bytes]) -> dict[str, Entity]:
    """Return what the metadata file describes, by id."""
    document = json.loads(members["ro-crate-metadata.json"])
    assert document["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    graph = document["@graph"]
    found = {entity["@id"]: entity for entity in graph}
    assert len(found) == len(graph)
    return found


def test_the_descriptor_is_about_the_root(entities: dict[str, Entity]) -> None:
    descriptor = entities["ro-crate-metadata.json"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}


def test_the_root_has_what_it_must_have(entities: dict[str, Entity]) -> None:
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert root["name"] == "a title"
    assert root["description"]
    assert entities[root["license"]["@id"]]["name"] == "No license is stated"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", root["datePublished"])


def test_every_member_is_a_part_with_its_size_and_digest(
    entities: dict[str, Entity], members: dict[str, bytes]
) -> None:
    parts = {part["@id"] for part in entities["./"]["hasPart"]}
    assert parts == set(members) - {"ro-crate-metadata.json"}
    for name in parts - {"chex.json"}:
        entity = entities[name]
        assert "File" in entity["@type"]
        assert "/" in entity["encodingFormat"]
        assert entity["contentSize"] == str(len(members[name]))
        assert entity["sha256"] == hashlib.sha256(members[name]).hexdigest()


def test_every_reference_leads_to_an_entity(entities: dict[str, Entity]) -> None:
    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            found = [value["@id"]] if set(value) == {"@id"} else []
            return found + [each for inner in value.values() for each in references(inner)]
        if isinstance(value, list):
            return [each for inner in value for each in references(inner)]
        return []

    known = {*entities, "https://w3id.org/ro/crate/1.1"}
    assert {each for entity in entities.values() for each in references(entity)} <= known


def test_names_and_versions_are_there_for_people(entities: dict[str, Entity]) -> None:
    assert entities[f"files/{digest(DATA)[:2]}/{digest(DATA)}"]["name"] == "data.csv"
    assert entities[f"files/{digest(DATA)[:2]}/{digest(DATA)}"]["encodingFormat"] == "text/csv"
    notebook = entities["notebooks/Base.ipynb"]
    assert notebook["@type"] == ["File", "SoftwareSourceCode"]
    assert notebook["encodingFormat"] == "application/x-ipynb+json"
    assert entities["#python"]["softwareVersion"] == "3.12.1"
    assert entities["#package-numpy"]["softwareVersion"] == "2.0.1+local"


def test_ids_need_no_escapes(entities: dict[str, Entity]) -> None:
    assert [
        ident for ident in entities if not re.fullmatch(r"[#\w./@+=,-]+", ident, re.ASCII)
    ] == []
