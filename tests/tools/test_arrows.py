"""The contracts of import-linter watch every module that there is."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tools.banned_apis import PURE_MODULES
from tools.finding import ROOT

PACKAGE = ROOT / "src" / "threadkeep"
EXEMPT = {"testing"}
"""Shipped for the tests of others; it may know everything."""


@pytest.fixture(scope="module")
def contracts() -> dict[str, Any]:
    """The contracts by their ids."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


class TestLayers:
    def test_every_module_has_its_layer(self, contracts: dict[str, Any]):
        """A new module without a layer would escape the check."""
        placed = {
            module.strip().split(".")[1]
            for layer in contracts["layers"]["layers"]
            for module in re.split("[|:]", layer)
        }
        there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}

        assert there - {"__init__", "__main__"} - EXEMPT == placed


class TestBackends:
    def test_every_backend_is_known_to_the_app_only(self, contracts: dict[str, Any]):
        """A backend is a module of storage/ with a class that is called so; what it is made of is protected, too."""
        backends = {
            f"threadkeep.storage.{path.stem}"
            for path in (PACKAGE / "storage").glob("*.py")
            if path.stem not in {"base", "interface"}
            and "\nclass " in (text := path.read_text(encoding="utf-8"))
            and "Storage:" in text
        }

        assert backends <= set(contracts["backends"]["protected_modules"])


class TestPure:
    def test_both_checks_mean_the_same_modules(self, contracts: dict[str, Any]):
        """What may not await may not import what awaits."""
        listed = {f"threadkeep.{path.removesuffix('.py').replace('/', '.')}" for path in PURE_MODULES}

        assert listed <= set(contracts["pure"]["source_modules"])
        assert all((PACKAGE / path).is_file() for path in PURE_MODULES)
