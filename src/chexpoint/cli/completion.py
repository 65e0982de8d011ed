"""``chex completion``: scripts that let a shell complete ``chex`` with the tab key.

The scripts are written from the parser itself, so they cannot fall behind it, and they need
neither Python nor another package when the key is pressed.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHELLS = ("bash", "fish", "zsh")
FILE_WORDS = ("FILE", "DIR", "PATH", "PACKAGE", "OUT")
"""Placeholders in help texts that stand for a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An option or a positional argument, as far as a shell completes it."""

    flags: tuple[str, ...]
    """Empty for a positional argument."""
    summary: str
    choices: tuple[str, ...] = ()
    takes_value: bool = False
    is_path: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb and what may follow it."""

    name: str
    summary: str
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> tuple[Argument, ...]:
        """The arguments that start with a dash."""
        return tuple(argument for argument in self.arguments if argument.flags)

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """The others."""
        return tuple(argument for argument in self.arguments if not argument.flags)


class CompletionCommand:
    """Print a completion script."""

    name = "completion"
    summary = "print a script that completes chex with the tab key"
    example = (
        "  source <(chex completion bash)                               this shell only\n"
        "  chex completion bash >> ~/.bashrc                            every bash\n"
        "  chex completion zsh > ~/.zfunc/_chex                         a folder of your $fpath\n"
        "  chex completion fish > ~/.config/fish/completions/chex.fish"
    )

    def __init__(self, build_parser: Callable[[], argparse.ArgumentParser]) -> None:
        """Remember how to build the parser whose words are completed."""
        self._build_parser = build_parser

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the name of the shell."""
        parser.add_argument("shell", choices=SHELLS, help="the shell to write for")

    def run(self, args: argparse.Namespace) -> int:
        """Print the script."""
        writers = {"bash": bash_script, "fish": fish_script, "zsh": zsh_script}
        print(writers[args.shell](verbs_of(self._build_parser())), end="")
        return 0


def verbs_of(parser: argparse.ArgumentParser) -> tuple[Verb, ...]:
    """Return the verbs of ``parser``, with all that may follow each."""
    found: list[Verb] = []
    # argparse has no public way to look into a parser.
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, verb_parser in action.choices.items():
            arguments = tuple(_argument(item) for item in verb_parser._actions)
            found.append(Verb(name=name, summary=summaries.get(name, ""), arguments=arguments))
    return tuple(sorted(found, key=lambda verb: verb.name))


def bash_script(verbs: Sequence[Verb]) -> str:
    """Return a completion script for bash 4 or newer."""
    cases = "\n".join(_bash_case(verb) for verb in verbs)
    names = " ".join([*(verb.name for verb in verbs), "--help", "--version"])
    return f"""\
_chex() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local words=""
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        words={shlex.quote(names)}
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    if [[ $words == "<path>" ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
}}
complete -o filenames -F _chex chex
"""


def fish_script(verbs: Sequence[Verb]) -> str:
    """Return a completion script for fish."""
    lines = [
        "complete -c chex -f",
        "complete -c chex -n __fish_use_subcommand -l help -d 'show help'",
        "complete -c chex -n __fish_use_subcommand -l version -d 'show the version'",
    ]
    for verb in verbs:
        lines.append(
            f"complete -c chex -n __fish_use_subcommand -a {verb.name} "
            f"-d {_fish_quote(verb.summary)}"
        )
        seen = f"-n '__fish_seen_subcommand_from {verb.name}'"
        lines.extend(
            f"complete -c chex {seen} {_fish_argument(argument)}" for argument in verb.arguments
        )
    return "\n".join(lines) + "\n"


def zsh_script(verbs: Sequence[Verb]) -> str:
    """Return a completion script for zsh, to be sourced or put into ``$fpath``."""
    names = "\n".join(f"        {_zsh_quote(f'{verb.name}:{verb.summary}')}" for verb in verbs)
    cases = "\n".join(_zsh_case(verb) for verb in verbs)
    return f"""\
#compdef chex
_chex() {{
    local -a verbs
    verbs=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe -t verbs verb verbs
        _arguments '--help[show help]' '--version[show the version]'
        return
    fi
    local verb="$words[2]"
    shift words
    (( CURRENT-- ))
    case "$verb" in
{cases}
    esac
}}
if [ "$funcstack[1]" = "_chex" ]; then
    _chex "$@"
else
    compdef _chex chex
fi
"""


def _argument(action: argparse.Action) -> Argument:
    choices = _choices(action)
    placeholder = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    takes_value = action.nargs != 0
    return Argument(
        flags=tuple(action.option_strings),
        summary=(action.help or "").replace("%%", "%"),
        choices=choices,
        takes_value=takes_value,
        is_path=takes_value and not choices and placeholder.startswith(FILE_WORDS),
    )


def _choices(action: argparse.Action) -> tuple[str, ...]:
    if action.dest == "planner":
        # No choices of the parser itself: they take long to load.
        from chexpoint.plan import PLANNERS

        return tuple(PLANNERS)
    return tuple(str(choice) for choice in action.choices or ())


def _bash_case(verb: Verb) -> str:
    lines = [f"        {verb.name})", '            case "$previous" in']
    for option in verb.options:
        if option.takes_value:
            words = "<path>" if option.is_path else " ".join(option.choices)
            lines.append(f"            {'|'.join(option.flags)}) words={shlex.quote(words)} ;;")
    flags = [flag for option in verb.options for flag in option.flags]
    values = [choice for positional in verb.positionals for choice in positional.choices]
    lines.append(f"            *) words={shlex.quote(' '.join([*values, *flags]))}")
    if any(positional.is_path for positional in verb.positionals):
        lines.append('               [[ $current != -* ]] && words="<path>"')
    lines += ["               ;;", "            esac ;;"]
    return "\n".join(lines)


def _fish_argument(argument: Argument) -> str:
    parts: list[str] = []
    for flag in argument.flags:
        letter = "l" if flag.startswith("--") else "s"
        parts.append(f"-{letter} {flag.lstrip('-')}")
    if argument.flags and argument.takes_value:
        parts.append("-r")
    if argument.choices:
        parts.append(f"-a {_fish_quote(' '.join(argument.choices))}")
    if argument.is_path:
        parts.append("-F")
    parts.append(f"-d {_fish_quote(argument.summary)}")
    return " ".join(parts)


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _zsh_case(verb: Verb) -> str:
    specs: list[str] = []
    for option in verb.options:
        specs.extend(
            _zsh_quote(f"{flag}[{_zsh_text(option.summary)}]{_zsh_value(option)}")
            for flag in option.flags
        )
    specs.extend(
        _zsh_quote(f"*:{_zsh_text(positional.summary)}:{_zsh_action(positional)}")
        for positional in verb.positionals
    )
    return f"    {verb.name}) _arguments {' '.join(specs)} ;;"


def _zsh_value(option: Argument) -> str:
    return f":value:{_zsh_action(option)}" if option.takes_value else ""


def _zsh_action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return "_files" if argument.is_path else " "


def _zsh_text(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace(":", " -")


def _zsh_quote(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
