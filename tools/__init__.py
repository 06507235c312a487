"""The repository's own checks and generators: what a linter cannot know about this code and its documents."""

from __future__ import annotations
