"""Ten chapters with one idea each: read them in order."""
