"""Models: chat models that reply, and embedders that turn texts into vectors.

``base`` has the interfaces. ``local`` embeds on this machine with no key; ``langchain`` brings every provider, and the
stand-in that replies when none is set. Nothing here is imported before it is used.
"""
