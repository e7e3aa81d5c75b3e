"""The page and what it asks: a small HTTP server for this machine. Import from the files."""
