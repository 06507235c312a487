"""The LangGraph integration: middleware, tools, the store, and the graph of `langgraph.json`.

`identity` determines the owner of a turn, `middleware` recalls and captures, `tools` are for the model, `store` is
LangGraph's `BaseStore`, and `agents` and `graph` combine them.
"""
