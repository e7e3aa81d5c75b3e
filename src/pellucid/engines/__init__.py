"""The same search on other executors of the same weights."""
