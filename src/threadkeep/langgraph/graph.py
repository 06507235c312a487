"""The graph and the store that ``langgraph.json`` names: they load under ``langgraph dev``."""

from __future__ import annotations

import threadkeep
from threadkeep.langgraph.server import server_store

tk = threadkeep.open()
graph = tk.graph()
store = server_store(tk)
