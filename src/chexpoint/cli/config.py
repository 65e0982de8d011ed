"""``chex config``: which settings hold, and where they come from."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.cli.picture_files import add_project_option
from chexpoint.errors import InvalidValue

if TYPE_CHECKING:
    import argparse

    from chexpoint.config import Config, Held

EXIT_WRONG = 2


class ConfigCommand:
    """Show the settings."""

    name = "config"
    summary = "show the settings that hold, and where they come from"
    example = "  chex config\n  chex config --json"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add where to look."""
        add_project_option(parser)
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the settings; return 0, or 2 if something is wrong with them."""
        from chexpoint.config import Config

        if not Path(args.project).is_dir():
            raise InvalidValue(f"no folder {args.project}")
        config = Config.at(args.project)
        if args.json:
            print(json.dumps(_as_json(config)))
        else:
            print("\n".join(_as_lines(config)))
            for problem in config.problems:
                print(f"chex: {problem}", file=sys.stderr)
        return EXIT_WRONG if config.problems else 0


def _rows(config: Config) -> list[Held]:
    from chexpoint.config import SETTINGS

    valid = config.without_problems()
    return [valid.held(setting.name) for setting in SETTINGS]


def _as_lines(config: Config) -> list[str]:
    from chexpoint.config import FILE_NAME

    rows = [(held.setting.name, _shown(held), _source(held)) for held in _rows(config)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    where = str(config.file.path) if config.file is not None else f"none ({FILE_NAME} makes one)"
    return [
        f"file: {where}",
        *(f"{name:{widths[0]}}  {value:{widths[1]}}  {source}" for name, value, source in rows),
    ]


def _shown(held: Held) -> str:
    from chexpoint.model import DEFAULT_OVERHEAD

    if held.setting.is_secret and held.text:
        return "(secret)"
    if held.setting.kind == "share" and held.value == DEFAULT_OVERHEAD:
        return f"{DEFAULT_OVERHEAD:.1%}"
    return held.text or f"({held.setting.unset})"


def _source(held: Held) -> str:
    return os.path.basename(held.source)


def _as_json(config: Config) -> dict[str, object]:
    return {
        "file": None if config.file is None else str(config.file.path),
        "settings": [
            {
                "name": held.setting.name,
                "value": None if held.setting.is_secret else held.text or None,
                "source": held.source,
                "variable": held.setting.variable,
                "kind": held.setting.kind,
                "default": held.setting.default or None,
                "choices": list(held.setting.choices),
                "help": held.setting.help,
            }
            for held in _rows(config)
        ],
        "problems": list(config.problems),
    }
