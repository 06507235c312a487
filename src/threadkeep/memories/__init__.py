"""What is kept about an owner: one short statement each, with where it came from and when it is true.

Words: memory, kind, source, version, summary. `record` holds the values, `lifecycle` how they change (pure),
`shapes` how they are spelled as items, `service` what can be
done with them. Doors: `tk.memories`, the tools, the command line.
"""
