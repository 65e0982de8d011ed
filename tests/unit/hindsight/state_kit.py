"""Taking, keeping, comparing and putting back states of programs, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chexpoint.hindsight.state.putting_back import StoredLeaf, put_back
from chexpoint.hindsight.state.survey import Survey, take_survey


def surveyed(roots: Mapping[str, object]) -> Survey:
    """Take a survey that sees everything."""
    survey = take_survey(roots)
    assert dict(survey.unseen) == {}
    return survey


def kept(survey: Survey) -> dict[str, StoredLeaf]:
    """Return the leaves as a store would give them back."""
    found = {}
    for name, leaf in survey.leaves.items():
        data = bytearray(leaf.nbytes)
        leaf.copy_into(memoryview(data))
        assert bytes(leaf.data()) == data
        meta = json.loads(json.dumps(leaf.meta))
        found[name] = StoredLeaf(kind=leaf.kind, meta=meta, data=memoryview(bytes(data)))
    return found


def digests(roots: Mapping[str, object]) -> dict[str, str]:
    """Return the digests of all leaves; all have one."""
    found = {}
    for name, leaf in surveyed(roots).leaves.items():
        digest = leaf.digest()
        assert digest is not None, name
        found[name] = digest
    return found


class Kept:
    """A state that was kept."""

    def __init__(self, roots: Mapping[str, object]) -> None:
        self.survey = surveyed(roots)
        self.leaves = kept(self.survey)
        self.digests = digests(roots)

    def changed(self, roots: Mapping[str, object]) -> set[str]:
        """Return what has changed since, without the generators of the process."""
        names = surveyed(roots).changed_since(self.survey)
        return {name for name in names if not name.startswith("@")}

    def put_back(self, roots: dict[str, object]) -> dict[str, object]:
        """Put it back, bind names in the roots, and see that the state is the same."""
        bound = put_back(roots, self.leaves)
        roots.update(bound)
        now = digests(roots)
        assert {name: now.get(name) for name in self.digests} == self.digests
        return bound
