"""Looking inside a model while it works: attention, heads, the beam, and the labs. Import from the files."""
