"""The door to LangGraph."""
