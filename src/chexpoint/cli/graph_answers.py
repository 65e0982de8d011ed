"""What ``chex graph`` answers to each question."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.cli.picture_files import (
    PictureFiles,
    print_drawn,
    print_text,
    window_width,
    write_drawn,
)
from chexpoint.cli.plan import parse_time
from chexpoint.errors import ChexError, InvalidValue
from chexpoint.graph import (
    Prospect,
    best_models,
    find_artifact,
    outlook,
    prospect,
    top,
    warm_start_candidates,
)
from chexpoint.model import Artifact, ArtifactId, Seconds, parse_size, to_json
from chexpoint.view import (
    ArtifactRow,
    artifact_text,
    artifacts_text,
    graph_gc_text,
    graph_html,
    graph_json,
    graph_summary,
    graph_svg,
    graph_text,
    parts_json,
    prospect_text,
    row_json,
)

if TYPE_CHECKING:
    import argparse

    from chexpoint.graph import ExperimentGraph, LoadRates
    from chexpoint.project import GraphSweep, OpenGraph

_DAY_S = 24 * 3600.0
_OLD_S = 30 * _DAY_S


class _Asked:
    """A graph with what every answer needs of it."""

    def __init__(self, opened: OpenGraph) -> None:
        self.graph: ExperimentGraph = opened.graph()
        self.rates: LoadRates = opened.rates()
        self.saved = {each.artifact.id: each for each in top(self.graph, self.rates)}

    def row(self, artifact: Artifact) -> ArtifactRow:
        """Return an artifact as it is shown."""
        saved = self.saved.get(artifact.id)
        return ArtifactRow(
            artifact=artifact,
            operation=self.graph.operations.get(artifact.operation),
            compute_s=saved.recreation_s if saved else 0.0,
            saves_s=saved.total_s if saved else 0.0,
            load_s=self.rates.load_s(artifact),
        )

    def rows(self, artifacts: Iterable[Artifact]) -> list[ArtifactRow]:
        return [self.row(each) for each in artifacts]


def whole(opened: OpenGraph, args: argparse.Namespace, files: PictureFiles) -> None:
    """Show the graph as a whole, or what leads to one of its artifacts."""
    asked = _Asked(opened)
    graph = asked.graph
    word = args.target or (args.names[0] if args.names else None)
    aim = None if word is None else prospect(graph, find_artifact(graph, word).id, asked.rates)
    drawn = _drawn(opened, asked, aim, args, files)
    if args.json:
        print(json.dumps(_json(opened, asked, aim)))
    elif drawn:
        print_drawn(drawn)
    elif aim is not None:
        print_text(_prospect(asked, aim))
    else:
        print_text(graph_text(_summary(opened, asked), width=window_width()))


def top_saved(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Show artifacts by the time that they save."""
    asked = _Asked(opened)
    rows = asked.rows(each.artifact for each in asked.saved.values())
    _print_rows(rows, "artifacts", is_json=args.json, none="loading nothing would save time yet")


def best(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Show models, the best first."""
    asked = _Asked(opened)
    found = best_models(asked.graph, column=args.column, kind=args.kind)
    for word in args.on or ():
        on = find_artifact(asked.graph, word).id
        these = {each.id for each in best_models(asked.graph, on=on)}
        found = [each for each in found if each.id in these]
    _print_rows(asked.rows(found), "models", is_json=args.json, none="no such model is known")


def warm(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Show stored models that a training can begin with, the best first."""
    if not args.on or not args.kind:
        raise InvalidValue("give the training data with --on and the class with --kind")
    if args.fetch is not None and Path(args.fetch).exists():
        raise InvalidValue(f"{args.fetch} exists: name a new folder")
    asked = _Asked(opened)
    found: list[Artifact] | None = None
    for word in args.on:
        # What a kernel asks for is known by its id or by the digest of its contents.
        reads = _identities(asked.graph, word)
        these = warm_start_candidates(asked.graph, reads, args.kind)
        ids = {each.id for each in these}
        found = these if found is None else [each for each in found if each.id in ids]
    if args.fetch is None:
        none = "no stored model of this class was trained on this data"
        _print_rows(asked.rows(found or []), "models", is_json=args.json, none=none)
        return
    print(json.dumps(_fetched(opened, asked, found or [], Path(args.fetch))))


def show(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Show all that is known of one artifact."""
    asked = _Asked(opened)
    row = asked.row(find_artifact(asked.graph, args.names[0]))
    if args.json:
        print(json.dumps(row_json(row)))
    else:
        print_text(artifact_text(row, width=window_width()))


def collect(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Let go of contents that nobody uses."""
    budget = None if args.budget is None else parse_size(args.budget)
    older_than = _OLD_S if budget is None else _DAY_S
    if args.older_than is not None:
        older_than = parse_age(args.older_than)
    sweep = opened.foretell if args.dry_run else opened.collect
    found = sweep(older_than_s=older_than, budget_bytes=budget)
    _print_sweep(found, is_json=args.json, is_dry=args.dry_run)


def forget(opened: OpenGraph, args: argparse.Namespace) -> None:
    """Let go of the contents of some artifacts."""
    graph = opened.graph()
    ids = [find_artifact(graph, word).id for word in args.names]
    lacking = [word for word, each in zip(args.names, ids, strict=True) if _is_open(graph, each)]
    if lacking:
        raise InvalidValue(f"'{lacking[0]}' is not stored: there is nothing to forget")
    _print_sweep(opened.forget(ids), is_json=args.json, is_dry=False)


def parse_age(text: str) -> Seconds:
    """Return the seconds that a text means: ``"30d"``, ``"12h"``, ``"90"``.

    Raises
    ------
    InvalidValue
        If it is no time.
    """
    word = text.strip().lower()
    try:
        if word.endswith("d"):
            days = float(word[:-1])
            if 0 <= days < math.inf:
                return days * _DAY_S
        else:
            return parse_time(word)
    except ValueError:
        pass
    raise InvalidValue(f"'{text}' is not a time. Write for example 30d or 12h.")


# ---------------------------------------------------------------- the whole


def _summary(opened: OpenGraph, asked: _Asked) -> Any:
    settings, ahead = opened.settings, outlook(asked.graph, asked.rates)
    return graph_summary(
        asked.graph.operations.values(),
        asked.graph.artifacts.values(),
        where=settings.ledger,
        store=settings.store,
        budget_bytes=settings.budget_bytes,
        projects=len(opened.ledger.projects()),
        seconds=(ahead.compute_s, ahead.saved_s, ahead.possible_s),
    )


def _json(opened: OpenGraph, asked: _Asked, aim: Prospect | None) -> dict[str, Any]:
    data = graph_json(_summary(opened, asked))
    data |= parts_json(asked.graph.operations, asked.graph.artifacts)
    if aim is not None:
        data["plan"] = {
            "target": aim.target,
            "run": sorted(aim.run),
            "load": sorted(aim.load),
            "seconds": aim.seconds,
            "compute_s": aim.compute_s,
        }
    return data


def _drawn(
    opened: OpenGraph,
    asked: _Asked,
    aim: Prospect | None,
    args: argparse.Namespace,
    files: PictureFiles,
) -> list[tuple[Path | None, str]]:
    """Return what was drawn, after it is in its files; those without one are printed."""
    if not args.svg and not args.html:
        return []
    picture = _picture(asked.graph, aim)
    drawn = [(files.svg, picture)] if args.svg else []
    drawn += [(files.html, _page(opened, asked, picture))] if args.html else []
    write_drawn(drawn)
    return drawn


def _picture(graph: ExperimentGraph, aim: Prospect | None) -> str:
    if aim is None:
        return graph_svg(graph.operations, graph.artifacts)
    return graph_svg(
        graph.operations,
        graph.artifacts,
        target=aim.target,
        run=aim.run,
        load=aim.load,
        needed=aim.needed,
    )


def _page(opened: OpenGraph, asked: _Asked, picture: str) -> str:
    return graph_html(
        _summary(opened, asked),
        picture,
        models=asked.rows(best_models(asked.graph)),
        artifacts=asked.rows(each.artifact for each in asked.saved.values()),
    )


def _prospect(asked: _Asked, aim: Prospect) -> str:
    graph = asked.graph
    return prospect_text(
        asked.row(graph.artifacts[aim.target]),
        asked.rows(graph.artifacts[each] for each in sorted(aim.load)),
        [graph.operations[each] for each in graph.in_order() if each in aim.run],
        aim.seconds,
        compute_s=aim.compute_s,
        width=window_width(),
    )


# ---------------------------------------------------------------- lists


def _print_rows(rows: list[ArtifactRow], what: str, *, is_json: bool, none: str) -> None:
    if is_json:
        print(json.dumps({what: [row_json(row) for row in rows]}))
    else:
        print_text(artifacts_text(rows, width=window_width()) if rows else none)


def _print_sweep(found: GraphSweep, *, is_json: bool, is_dry: bool) -> None:
    if is_json:
        print(json.dumps({**to_json(found), "dry_run": is_dry}))
        return
    print_text(
        graph_gc_text(
            artifacts=len(found.artifacts),
            stored_bytes=found.stored_bytes,
            images=found.images,
            freed_bytes=found.freed_bytes,
            is_dry=is_dry,
        )
    )


def _is_open(graph: ExperimentGraph, artifact: ArtifactId) -> bool:
    return graph.artifacts[artifact].stored is None


# ---------------------------------------------------------------- warm starts


def _identities(graph: ExperimentGraph, word: str) -> list[str]:
    """Return what data is known by: ids and digests, divided by commas, or as a user names it."""
    if "," in word:
        return [each for each in word.split(",") if each]
    found = find_artifact(graph, word)
    return [found.id, found.group.digest] if found.group.digest else [found.id]


def _fetched(
    opened: OpenGraph, asked: _Asked, found: list[Artifact], folder: Path
) -> dict[str, Any]:
    """Return the first model whose contents can be had, and why others cannot."""
    why = ""
    for artifact in found:
        try:
            model = opened.fetch(artifact, folder)
        except ChexError as error:
            # Ours: it was not there before.
            shutil.rmtree(folder, ignore_errors=True)
            why = why or str(error)
            continue
        if model is not None:
            return {"model": row_json(asked.row(artifact)), "fetched": to_json(model), "why": why}
    return {"model": None, "fetched": None, "why": why}
