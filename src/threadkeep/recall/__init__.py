"""Recall: choose the memories that matter for a model call, and render them within a budget.

``service`` recalls for a turn. ``relevance``, ``selection`` and ``currency`` decide which memories matter, ``packing``
which of them fit into the token budget. ``models`` renders the block that the model reads, and ``profile`` has the
named slots that memories fill. Indexes and ranking are in :mod:`threadkeep.search`.
"""
