"""Reads HTML more strictly than any browser does."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "base", "source"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag as it was found."""

    name: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)
    """What stands in it, at any depth."""

    @property
    def styles(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[Tag] = []
        self.open: list[Tag] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice: {names}"
        found = Tag(name=tag, attributes={name: value or "" for name, value in attrs})
        self.tags.append(found)
        if tag not in VOID:
            self.open.append(found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(Tag(name=tag, attributes={name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        opened = self.open.pop().name
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            tag.text.append(data)


def tags_of(html: str) -> list[Tag]:
    """Return all tags; each must be closed where it should be, and have an attribute only once."""
    html.encode("utf-8")
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"{reader.open[-1].name} is not closed"
    return reader.tags


def named(tags: list[Tag], name: str, style: str = "") -> list[Tag]:
    """Return the tags of a name, and of a class."""
    return [tag for tag in tags if tag.name == name and (not style or style in tag.styles)]
