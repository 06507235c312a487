"""Owners: everything that is stored about one owner.

`service` is ``tk.owners``, `erasure` erases and keeps receipts, `audit` reads and checks the audit, `opt_out` keeps the
owners that want no memory, and `models` holds the values.
"""
