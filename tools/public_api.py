"""Write the public API as text, one name a line, so that a change of it shows in a diff.

The text is kept in ``tests/library/public_api.txt``; ``python -m tools.reference`` writes it, and its ``--check``
compares it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import threadkeep
import threadkeep.errors
from threadkeep.settings import Settings, variables
from tools.finding import ROOT

PATH: Final = ROOT / "tests" / "library" / "public_api.txt"
_COUNTERS: Final = frozenset({"count", "degraded", "measure"})
_EVENT: Final = re.compile(r"[a-z_]+(\.[a-z_]+)+")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_FOREIGN: Final = frozenset({"store", "checkpointer", "sync"})
"""Parts whose methods are LangGraph's own, and the bridge that repeats the others."""


def public_api() -> str:
    """Return the public API: exports, methods of the client and its parts, commands, settings, errors and events."""
    sections = {
        "exports": _exports(),
        "client": _members("tk", threadkeep.Threadkeep),
        "parts": _parts(),
        "commands": _commands(),
        "settings": _settings(),
        "errors": _errors(),
        "events": _events(ROOT / "src" / "threadkeep"),
    }
    return "\n".join(f"[{title}]\n" + "\n".join(lines) + "\n" for title, lines in sections.items())


def _exports() -> Iterator[str]:
    for name in sorted(threadkeep.__all__):
        exported = getattr(threadkeep, name)
        if not inspect.isclass(exported):
            yield f"{name}{_signature(exported)}" if callable(exported) else name
            continue
        yield name
        fields = dataclasses.fields(exported) if dataclasses.is_dataclass(exported) else ()
        yield from (f"{name}.{field.name}: {field.type}" for field in fields)
        if exported is not threadkeep.Threadkeep and exported is not Settings:
            shown = {f"{name}.{field.name}" for field in fields}
            yield from (line for line in _members(name, exported) if line not in shown)


def _parts() -> Iterator[str]:
    for name, cls in parts():
        yield from _members(f"tk.{name}", cls)


def parts() -> Iterator[tuple[str, type]]:
    """Yield ``memories`` and its like with their classes; nothing connects."""
    with threadkeep.open("memory://") as tk:
        for name, member in sorted(inspect.getmembers_static(threadkeep.Threadkeep)):
            if name.startswith("_") or name in _FOREIGN or inspect.isfunction(member):
                continue
            part: Any = getattr(tk, name)
            if _is_part(part):
                yield name, type(part)


def _is_part(value: object) -> bool:
    return type(value).__module__.startswith("threadkeep.") and not dataclasses.is_dataclass(value)


def _members(prefix: str, cls: type) -> Iterator[str]:
    for name, member in sorted(inspect.getmembers_static(cls)):
        defined = next((base for base in cls.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not defined.__module__.startswith("threadkeep"):
            continue
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if inspect.isfunction(function):
            yield f"{'async ' if _is_async(function) else ''}{prefix}.{name}{_signature(function)}"
        else:
            yield f"{prefix}.{name}"


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _signature(function: Any) -> str:
    return _ADDRESS.sub("", str(inspect.signature(function))).replace("'", "").replace("threadkeep.", "")


def _commands() -> Iterator[str]:
    from threadkeep.cli.main import app

    yield from _command("threadkeep", typer.main.get_command(app))


def subcommands(group: TyperGroup) -> dict[str, Any]:
    """Return the commands of *group* by name, those of installed packages included."""
    context = typer.Context(group)
    return {name: group.get_command(context, name) for name in group.list_commands(context)}


def _command(path: str, command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for name, inner in sorted(subcommands(command).items()):
            yield from () if inner.hidden else _command(f"{path} {name}", inner)
    elif isinstance(command, TyperCommand):
        options = [
            "/".join(parameter.opts) if parameter.param_type_name == "option" else str(parameter.name).upper()
            for parameter in command.params
            if parameter.name != "help"
        ]
        yield " ".join([path, *(option for option in options)])


def _settings() -> Iterator[str]:
    for names, (field, info) in zip(variables(), Settings.model_fields.items(), strict=True):
        yield f"{field} ({', '.join(names)}) = {info.default!r}"


def _errors() -> Iterator[str]:
    for name, error in sorted(vars(threadkeep.errors).items()):
        if inspect.isclass(error) and issubclass(error, threadkeep.ThreadkeepError):
            yield f"{name}: {getattr(error, 'code', '')}"


def _events(package: Path) -> Iterator[str]:
    """Yield the names of counters and durations, as they stand in calls of ``Telemetry``."""
    names = set[str]()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(name)), *_]):
                    names |= {name} if method in _COUNTERS and _EVENT.fullmatch(name) else set()
                case ast.AnnAssign(value=ast.Constant(value=str(name))) if name.startswith("threadkeep."):
                    names.add(name)
                case _:
                    pass
    yield from sorted(names)
