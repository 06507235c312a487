"""Storages of items: one interface, one base class, and a backend for each kind of database.

``interface`` is the specification: items in namespaces, partitioned, with revisions, committed in atomic batches.
``base`` checks, encodes and pages for every backend by the pure rules of ``encoding`` and ``rows``.
``memory`` and the packages ``sqlite``, ``postgres``, ``redis`` and ``mongodb`` are the backends; their class is in
``storage``. ``encryption`` wraps any of them. Services import ``interface`` only; the container chooses a backend.
"""
