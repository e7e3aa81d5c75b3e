"""The same weights in other programs' formats."""
