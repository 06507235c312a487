"""Collections: documents that a tenant shares, searched by meaning and words and cited by heading and page.

`models` holds the values. `service` is ``tk.collections``, and decides whether a passage has to do with a question.
"""
