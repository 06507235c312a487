"""A LangGraph project: what ``langgraph dev`` serves, and the gateway, too."""
