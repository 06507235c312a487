"""Write what type checkers see of ``tk.sync``: ``sync_bridge.pyi``, from the signatures of the services."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tools.finding import ROOT

SERVICES: Final = {
    "threadkeep.turns": ("TurnOperations",),
    "threadkeep.client": ("Threadkeep",),
    "threadkeep.memories.service": ("MemoryService",),
    "threadkeep.recall.profile.service": ("ProfileService",),
    "threadkeep.proposals.service": ("ProposalService",),
    "threadkeep.capture.queue": ("QueueService",),
    "threadkeep.owners.service": ("OwnerService",),
    "threadkeep.collections.service": ("CollectionService",),
    "threadkeep.scopes.service": ("ScopeService",),
    "threadkeep.credentials.service": ("CredentialService",),
    "threadkeep.langgraph.threads": ("ThreadService",),
    "threadkeep.langgraph.runs": ("RunService",),
    "threadkeep.langgraph.agents": ("AgentService",),
}
"""Every class that ``tk.sync`` stands for, by its module; in the stub they are called ``Sync…``."""

BASES: Final = frozenset({"TurnOperations"})
"""Those of them that others derive from."""

SERVICE_NAMES: Final = frozenset(name for names in SERVICES.values() for name in names if name.endswith("Service"))

HEAD: Final = """\
# Written by `make docs` from the services; change it there.

import builtins
"""

FOOT: Final = """
class Blocking:
    def __init__(self, target: object, app: Container, *, apart: bool = False) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def blocking(target: object, app: Container) -> SyncThreadkeep: ...
"""


@dataclass(frozen=True, slots=True)
class Method:
    """One method as a caller who blocks sees it, and the names that it is written with."""

    text: str
    names: frozenset[str]


def sync_face() -> str:
    """Return ``src/threadkeep/sync_bridge.pyi``."""
    imports = {"from threadkeep.container import Container", "from typing import Any"}
    classes: list[str] = []
    for module, names in SERVICES.items():
        tree = ast.parse((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        modules = dict(_imports(tree, module))
        for cls in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names):
            methods = list(_methods(cls))
            used = frozenset[str]().union(*(method.names for method in methods)) - SERVICE_NAMES
            imports |= {modules[name] for name in used if name in modules}
            body = "\n".join(method.text for method in methods)
            bases = ", ".join(f"Sync{base.id}" for base in cls.bases if isinstance(base, ast.Name) and base.id in BASES)
            classes.append(f"@type_check_only\nclass Sync{cls.name}{bases and f'({bases})'}:\n{body}\n")
    imports.add("from typing import type_check_only")
    return _formatted("\n".join([HEAD, *sorted(imports), "", *classes, FOOT]))


def _imports(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Yield every name that the module has, and the import that brings it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            for one in node.names:
                yield one.asname or one.name, f"from {node.module} import {one.name}"
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        name = targets[0].id if isinstance(targets[0], ast.Name) else getattr(node, "name", None)
        if isinstance(name, str):
            yield name, f"from {module} import {name}"


def _methods(cls: ast.ClassDef) -> Iterator[Method]:
    shadowed = {node.name for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)} & {"list"}
    for node in cls.body:
        if (
            not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            or node.name.startswith("_")
            or node.name == "sync"
        ):
            continue
        returns = _returned(node)
        signature = _Shown(shadowed).visit(node.args)
        shown = _Shown(shadowed).visit(returns)
        property_ = "    @property\n" if _is_property(node) else ""
        text = f"{property_}    def {node.name}({ast.unparse(signature)}) -> {ast.unparse(shown)}: ..."
        names = {one.id for part in (signature, shown) for one in ast.walk(part) if isinstance(one, ast.Name)}
        yield Method(text, frozenset(names))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def _returned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr:
    """Return the type of the blocking method: a list for a generator, the blocking class for a service."""
    returns = node.returns
    if returns is None:
        msg = f"{node.name} does not say what it returns."
        raise TypeError(msg)
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "AsyncIterator":
        return ast.Subscript(ast.Name("list"), returns.slice)
    if _is_property(node) and isinstance(returns, ast.Name) and returns.id in SERVICE_NAMES:
        return ast.Name(f"Sync{returns.id}")
    return returns


class _Shown(ast.NodeTransformer):
    """Leave the values of defaults out, and name built-in types so that a method of that name hides none."""

    def __init__(self, shadowed: set[str]) -> None:
        self._shadowed = shadowed

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        self.generic_visit(node)
        node.defaults = [ast.Constant(...) for _ in node.defaults]
        node.kw_defaults = [one and ast.Constant(...) for one in node.kw_defaults]
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("builtins"), node.id) if node.id in self._shadowed else node


def _formatted(text: str) -> str:
    """Return the stub as `make fix` leaves it."""
    for command in (("check", "--quiet", "--select", "I,F401", "--fix"), ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "src/threadkeep/sync_bridge.pyi", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text
