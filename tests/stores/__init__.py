"""LangGraph's own tests of stores, with our store."""
