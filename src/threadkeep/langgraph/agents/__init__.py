"""Deep agents: a supervisor with memory, and the sub-agents that one TOML file declares.

A *declaration* says what an agent is for and which tools of which MCP server it may use; a *standing* says whether it
can be used now, and why not. Doors: ``tk.agents``. Needs ``threadkeep[agents]``.
"""
