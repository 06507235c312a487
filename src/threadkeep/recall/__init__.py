"""Recall: choosing, before a model call, the memories that matter, and rendering them within a budget.

An **index** holds one partition's vectors and postings in RAM and follows the storage's changes;
**search** keeps the indexes in use and answers with a **ranking** of **hits**; **recall** reads the
best of them, fits them into a budget and renders the **block** that the model sees. Everything that
decides (``text``, ``lexical``, ``rank``, ``budget``, ``render``) is pure. Doors: ``search.Search`` for
the store, ``service.RecallService`` for a turn, ``rendering`` for code that tells recalled text from new.
"""
