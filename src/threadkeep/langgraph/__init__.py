"""The LangGraph door: middleware, tools, the store, and the graph that `langgraph.json` names.

Words: turn, run, runtime, namespace. `identity` tells whose turn it is, `middleware` recalls and captures,
`tools` are for the model, `store` is the whole `BaseStore`, `agent` and `graph` put them together.
"""
