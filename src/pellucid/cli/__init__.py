"""The command line, a verb a file. What a verb needs is imported when it runs, so that `--help` answers at once."""
