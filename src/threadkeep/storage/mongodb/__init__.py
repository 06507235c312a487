"""Items in MongoDB: no transactions; one insert is a commit, and items are folded from it."""
