"""Commands that other installed packages add through the entry-point group ``threadkeep.commands``."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

from threadkeep.errors import InvalidInputError

GROUP: Final = "threadkeep.commands"
"""Each entry point of the group names a command and refers to a ``typer.Typer``."""

_PACKAGES: Final = {"bench": "threadkeep-evals", "eval": "threadkeep-evals", "replay": "threadkeep-evals"}


class ExtensibleGroup(TyperGroup):
    """The commands of Threadkeep, then those of installed packages.

    Entry points are read for the list of commands and for a name that Threadkeep does not have: no other command
    pays for reading them.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in _entry_points() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None if no package has it.

        Raises:
            InvalidInputError: The package of the command is not installed.
        """
        if own := super().get_command(ctx, cmd_name):
            return own
        if entry_point := _entry_points().get(cmd_name):
            from typer.main import get_command

            command = get_command(entry_point.load())
            command.name = cmd_name
            return command
        if package := _PACKAGES.get(cmd_name):
            msg = f"threadkeep {cmd_name} needs the package {package}. Install it: pip install {package}"
            raise InvalidInputError(msg)
        return None


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry_point.name: entry_point for entry_point in sorted(entry_points(group=GROUP))}
