"""The Model Context Protocol: memory for assistants, editors and other clients.

`server` answers the requests, `mount` serves them at `/mcp` of the gateway, `stdio` for `threadkeep mcp`, and `clients`
writes the configurations of clients. The tools are those of `threadkeep.gateway.operations`.
"""
