"""Tests of the tree of errors."""

from __future__ import annotations

import re

from threadkeep import errors

_BRANCH = re.compile(r"^ {4}([│ ]*)(?:├── |└── )?(\w+Error)\b")


class TestTree:
    def test_it_names_every_error_below_its_parent(self) -> None:
        """Whoever reads the module first sees what there is to catch, and what catches more."""
        told: dict[str, str] = {}
        above: list[str] = []
        for line in (errors.__doc__ or "").splitlines():
            if found := _BRANCH.match(line):
                depth = 0 if "── " not in line else len(found[1]) // 4 + 1
                above[depth:] = [found[2]]
                told[found[2]] = above[depth - 1] if depth else "Exception"

        made = {
            name: made.__bases__[0].__name__
            for name, made in vars(errors).items()
            if isinstance(made, type) and issubclass(made, errors.ThreadkeepError)
        }
        assert told == {**made, "InvalidNamespaceError": "InvalidInputError"}
