"""Take commands from extensions and installed packages."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import click

from medhelm.io.plugins import COMMANDS, LazyMapping, Plugin, check_plugin_name, extension_targets, missing_extension


class ExtensibleGroup(click.Group):
    """A group of commands, some of which belong to extensions and are imported when they are called."""

    def __init__(self, *args: Any, extensions: Mapping[str, str], within: str = "", **settings: Any) -> None:
        """Take the arguments of `click.Group`, and which commands belong to which extension.

        Parameters: extensions, command -> extension that declares it; within, what comes before the command in names
        of entry points, such as `export `.
        """
        super().__init__(*args, **settings)
        self.extensions = extensions
        declared = extension_targets(COMMANDS)
        targets = {name: declared[within + name] for name in extensions if within + name in declared}
        lazy: LazyMapping[click.Command] = LazyMapping(targets)
        # Click writes to the first mapping, and only reads the second.
        self.commands = ChainMap(self.commands, cast("MutableMapping[str, click.Command]", lazy))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if it is unknown. Raises: MissingError if its extension is missing."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in self.extensions and not ctx.resilient_parsing:
            raise missing_extension(f"`{ctx.command_path} {cmd_name}`", self.extensions[cmd_name])
        return command


def accept_command(plugin: Plugin, found: object) -> click.Command:
    """Return the command of a plug-in. Raises: UserError if it is not one."""
    check_plugin_name(plugin)
    if not isinstance(found, click.Command):
        raise plugin.refuse("is not a command of click")
    return found
