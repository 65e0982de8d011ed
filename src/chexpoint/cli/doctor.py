"""``chex doctor``: what this machine lets CHEX do."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from chexpoint.cli.command import add_json_option
from chexpoint.palette import DIFFERENT, FAILED, SAME

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.text import Text

    from chexpoint.cli.capabilities import Capability

STYLES = {"ok": SAME.colour, "limited": DIFFERENT.colour, "off": FAILED.colour}


class DoctorCommand:
    """Probe the machine and show one line for each capability."""

    name = "doctor"
    summary = "show what this machine lets CHEX do, and how to turn on what is off"
    example = (
        "  chex doctor\n"
        "  chex doctor --json\n\n"
        "Each capability is ok, limited or off. The exit code is 1 when no checkpoint can be\n"
        "taken at all, else 0."
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--json``."""
        add_json_option(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Probe, print, and return 1 if no checkpoint can be taken."""
        from chexpoint.cli.capabilities import examine
        from chexpoint.cli.machine import ThisMachine

        found = examine(ThisMachine())
        if args.json:
            print(json.dumps({"capabilities": [asdict(capability) for capability in found]}))
        else:
            from rich.console import Console

            console = Console(highlight=False)
            for line in render(found):
                console.print(line, soft_wrap=True)
        return exit_code(found)


def render(capabilities: Sequence[Capability]) -> list[Text]:
    """Return the lines to show, one for each capability."""
    from rich.text import Text

    width = max(len(capability.name) for capability in capabilities)
    lines = []
    for capability in capabilities:
        line = Text(f"{capability.state:8}", style=STYLES[capability.state])
        line.append(f"{capability.name:{width}}  ", style="bold")
        line.append(capability.detail, style="default")
        if capability.advice:
            line.append(f"; to change it: {capability.advice}", style="dim")
        lines.append(line)
    return lines


def exit_code(capabilities: Sequence[Capability]) -> int:
    """Return 1 if something without which no checkpoint can be taken is off."""
    missing = [c for c in capabilities if c.essential and c.state == "off"]
    return 1 if missing else 0
