"""Search: one hybrid index per partition, and how it answers.

``index`` holds vectors and postings, ``cache`` the indexes in use, ``scoring`` the order of the results and
``retriever`` the way from a query to them. ``vectorstores`` serves partitions that are too large for RAM.
"""
