"""One file a format. A module that registers a reader for its suffixes is all that a new format needs."""
