"""Transfer: copy items and threads between storages, and import those of other programs.

``copying`` copies a storage, reads the copy back, checks it and embeds it anew. ``sources`` and ``langgraph_stores``
read what is copied, and ``importer`` decides what a foreign item becomes. ``threads`` copies threads to and from
LangGraph's savers, and ``earlier_threads`` those of an earlier version. ``conversation_exports`` reads exports of
conversations with other programs.
"""
