"""The graph that ``langgraph.json`` names: loads under ``langgraph dev``, which brings its own checkpointer."""

from __future__ import annotations

import threadkeep

tk = threadkeep.open()
graph = tk.graph()
