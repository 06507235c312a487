"""The real LangGraph dev server, in an environment of its own, with no network."""
