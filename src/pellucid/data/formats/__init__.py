"""One file a format. `registry.py` finds the reader for a file name; a new format is one file and one line there."""
