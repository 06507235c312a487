"""Credentials of users for MCP servers: OAuth 2.1 tokens of each owner, refreshed, encrypted and revoked.

:class:`~threadkeep.credentials.service.CredentialService` is ``tk.credentials``.
"""
