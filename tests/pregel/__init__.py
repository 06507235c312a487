"""LangGraph's own tests of graphs, with our checkpointer."""
