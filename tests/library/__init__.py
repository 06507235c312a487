"""The Python door and the documents' functions."""
