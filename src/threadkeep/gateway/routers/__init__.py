"""The routes of the gateway."""
