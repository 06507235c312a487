"""Moving: items from one storage to another, from elsewhere to here, from one model's vectors to another's.

Words: an *entry* is an item on its way; a *source* gives entries; a *tally* is a count and a checksum that
two storages share where they hold the same. `copying` copies and reads back, `checking` looks for what is
not as it must be, `embedding` makes vectors anew; `arriving` says what a foreign item becomes, and
`stock_*` and `mem0` read where they come from. Doors: the command line.

`conversation_exports` reads exports of conversations with other programs, and `conversations` learns from them.
"""
