"""Who it is about: the owner, its label in LangGraph namespaces, and everything that is held about it.

Words: owner, tenant, label, holdings, erasure receipt. `owner` holds the value, `claims` what a configuration says,
`service` shows and exports, `erasing` erases and keeps `receipts` of it, `audit` reads and checks what was changed.
Doors: `tk.owners`, the command line.
"""
