"""``python -m threadkeep``: the command line, where the script ``threadkeep`` is not on the path."""

from __future__ import annotations

from threadkeep.cli.main import main

if __name__ == "__main__":
    main()
