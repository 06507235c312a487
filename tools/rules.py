"""Run every rule of this repository that no linter knows: ``python -m tools.rules``."""

from __future__ import annotations

import sys

from tools import banned_apis, host_names, language, naming
from tools.finding import report

if __name__ == "__main__":
    sys.exit(
        report([*banned_apis.check_tree(), *naming.check_tree(), *host_names.check_tree(), *language.check_tree()])
    )
