"""The agent and its memory over HTTP, for many users: ``threadkeep serve``. It imports the client only."""
