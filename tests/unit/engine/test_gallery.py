"""Which images an engine knows, and what it takes to use one."""

from __future__ import annotations

from chexpoint.engine.gallery import Gallery, Picture, picture_of
from chexpoint.engine.policy import worth_imaging
from chexpoint.lineage import Step
from chexpoint.model import ImageInfo, ImageName, KnownImage, LostVariable, NodeId


def path(*nodes: str) -> list[Step]:
    steps = [Step(None)]
    for node in nodes:
        step = Step(steps[-1])
        step.node, step.seconds = NodeId(node), 2.0
        steps.append(step)
    return steps


def info(*lost: LostVariable) -> ImageInfo:
    return ImageInfo(
        name=ImageName("i"), time=0.0, seconds=1.0, state_bytes=5, stored_bytes=2, lost=lost
    )


def lost(cell: str, *, is_alone: bool = True) -> LostVariable:
    return LostVariable(name="g", kind="generator", why="it runs", cell=cell, is_alone=is_alone)


def test_a_variable_that_was_lost_needs_the_cells_up_to_its_own() -> None:
    steps = path("A", "AB", "ABC")
    picture = picture_of(info(lost("line.7")), steps[3], {"line.7": steps[2]}.get)
    assert isinstance(picture, Picture)
    assert (picture.needs, picture.keep) == (2, ("g",))
    assert (picture.known().node, picture.known().state_bytes) == ("ABC", 5)


def test_an_image_cannot_be_used_if_what_it_lacks_cannot_be_made_alone() -> None:
    steps, other = path("A", "AB"), path("X")
    where = {"1": steps[1], "2": other[1]}
    for each in (lost("1", is_alone=False), lost("2"), lost("unknown")):
        why = picture_of(info(each), steps[2], where.get)
        assert why == "'g' (generator) cannot be stored: it runs"


def test_the_newest_image_of_a_state_is_used_and_the_nearest_is_most_alike() -> None:
    gallery = Gallery()
    steps = path("A", "AB", "ABC")
    for name, step in (("old", steps[1]), ("new", steps[1]), ("far", path("X")[1])):
        gallery.add(Picture(name=ImageName(name), step=step))
    found = gallery.of(steps[1])
    assert found is not None
    assert found.name == "new"
    near = gallery.nearest(steps[3])
    assert near is not None
    assert near.name == "new"
    assert gallery.unsaved_s(steps[3]) == 4.0
    gallery.forget(ImageName("new"))
    gallery.forget(ImageName("old"))
    assert gallery.of(steps[1]) is None
    assert gallery.unsaved_s(steps[3]) == 6.0


def test_an_image_of_an_earlier_session_is_found_by_its_state() -> None:
    gallery = Gallery()
    gallery.found(
        KnownImage(name=ImageName("i"), node=NodeId("AB"), taint="t", needs=1, keep=("g",))
    )
    here = path("A", "AB")[2]
    assert gallery.of(here) is None
    here.taint = "t"
    found = gallery.of(here)
    assert found is not None
    assert (found.needs, found.keep) == (1, ("g",))


def test_an_image_has_to_save_more_than_it_costs() -> None:
    assert worth_imaging(cost_s=5.0, image_s=1.0)
    assert not worth_imaging(cost_s=5.0, image_s=5.0)
    assert not worth_imaging(cost_s=0.9, image_s=0.0)
