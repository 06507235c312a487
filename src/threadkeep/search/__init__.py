"""Search: one hybrid index per partition, and how it answers.

``index`` holds vectors and postings and caches the indexes in use. ``query`` parses a question, ``scoring`` and
``ranking`` order the results, and ``retriever`` answers a query. ``vectorstores`` serves partitions that are
too large for RAM.
"""
