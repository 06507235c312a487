"""Changes to memory that wait for a decision by a person or a policy, and what must not be learnt again.

Words: proposal, verdict, decision, tombstone. `record` holds the values, `policy` says which statements need
asking (pure), `shapes` how rows are spelled (pure), `tombstones` what says a rejected or forgotten
statement again, `service` proposing and deciding. Doors: `tk.proposals`, the tool, the command line.
"""
