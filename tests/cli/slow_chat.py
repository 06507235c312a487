"""Run ``threadkeep chat`` with a model whose first reply never comes, and little patience."""

from __future__ import annotations

import asyncio
import sys

from threadkeep.cli import chat, output
from threadkeep.cli.main import main
from threadkeep.testing import Held, ScriptedModel


class _Announced(ScriptedModel):
    """Says on the terminal that it was called."""

    def _next(self, messages):
        sys.stdout.write("thinking\n")
        sys.stdout.flush()
        return super()._next(messages)


if __name__ == "__main__":
    opened = output.open_memory
    model = _Announced(replies=[Held(asyncio.Event()), "Noted."])
    chat.SILENCE_SECONDS = 0.1
    chat.open_memory = lambda data_dir: opened(data_dir, model=model)
    sys.argv = ["threadkeep", "chat"]
    main()
