"""Owners: everything that is stored about one owner.

`service` is ``tk.owners`` and keeps the owners that want no memory, `erasure` erases and keeps receipts, and `models`
holds the values, reads the audit and checks it.
"""
