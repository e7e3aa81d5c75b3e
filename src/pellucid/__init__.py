"""pellucid: the Transformer of "Attention Is All You Need", to train, to translate with and to look into."""

__version__ = "0.1.0"
