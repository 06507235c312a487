"""Every example of the repository, run as its reader would run it."""
