"""Who it is about: the owner, its label in LangGraph namespaces, and everything that is held about it.

Words: owner, tenant, label, holdings. `owner` holds the value, `claims` what a configuration says, `service` shows,
exports and erases. Doors: `tk.owners`, the command line.
"""
