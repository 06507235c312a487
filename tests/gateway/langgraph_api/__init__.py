"""LangGraph's API under ``/lg``, judged by the unmodified SDK."""
