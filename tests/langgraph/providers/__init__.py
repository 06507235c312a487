"""The supervisor and its sub-agents, over real MCP servers."""
