"""Write a man page for every command.

    python -m tools.man [FOLDER]          # default: build/man/man1

Read one with `man -l build/man/man1/medhelm-run.1`; to install them for one user, name ~/.local/share/man/man1.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from medhelm import __version__
from medhelm.cli import cli
from tools.descriptions import EXIT_CODES
from tools.reference import commands, help_parts, option_row, options_of

ROOT = Path(__file__).parent.parent


def escaped(text: str) -> str:
    """Return text that roff shows as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def page(name: str, command: click.Command) -> str:
    """Return the man page of one command in roff."""
    title = name.replace(" ", "-")
    prose, example = help_parts(command)
    first, _, rest = prose.partition("\n\n")
    arguments = [p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)]
    below = "COMMAND [ARGS]..." if isinstance(command, click.Group) else " ".join(arguments)
    lines = [
        f'.TH "{title.upper()}" "1" "" "medhelm {__version__}" "MedHELM"',
        ".SH NAME",
        f"{escaped(title)} \\- {escaped(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(name)}",
        escaped(f"[OPTIONS] {below}".rstrip()),
    ]
    if rest:
        lines += [".SH DESCRIPTION", *(escaped(part) + "\n.PP" for part in rest.split("\n\n"))]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for word, one in sorted(command.commands.items()):
            lines += [".TP", f".BR {escaped(f'{title}-{word}')} (1)", escaped(help_parts(one)[0].split("\n\n")[0])]
    lines.append(".SH OPTIONS")
    for option in options_of(command):
        flag, meaning, default = option_row(option)
        lines += [".TP", f".B {escaped(flag)}", escaped(f"{meaning} {default and f'({default})'}".strip())]
    if example:
        lines += [".SH EXAMPLES", ".nf", escaped(example), ".fi"]
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f".B {code}", escaped(meaning)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "man" / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    written = [(folder / f"{name.replace(' ', '-')}.1", page(name, command)) for name, command in commands(cli)]
    for path, text in written:
        path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(written)} man pages in {folder}")


if __name__ == "__main__":
    main()
