"""Servers that break under load: what was lost and done twice, and how soon it went on; a program, too."""
