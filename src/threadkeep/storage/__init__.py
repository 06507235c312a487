"""Where items are kept: one seam, and a backend for each kind of place.

``port`` is the specification: items in namespaces, partitioned, with revisions, committed in atomic
batches. ``encoding``, ``row``, ``matching`` and ``commit`` are the pure rules that every backend obeys,
so that a text, a filter or an expectation means the same on all of them; ``in_memory`` and the packages
``sqlite``, ``postgres``, ``redis`` and ``mongodb`` are the backends, whose class is each in ``storage``.
Rooms see the port only; the composition root chooses a backend.
"""
