"""Whose memory it is."""
