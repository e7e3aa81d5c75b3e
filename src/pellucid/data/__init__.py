"""From files to batches: formats (one reader a format), corpus, tokenizer, store, batching. No torch here."""
