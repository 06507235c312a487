"""Collections: documents that a tenant shares, searched by meaning and words and cited by heading and page.

`models` holds the values, `relevance` decides whether a passage has to do with a question, and `service` is
``tk.collections``.
"""
