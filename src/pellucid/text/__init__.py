"""Text around a translation, with no model: sentences, placeholders and tags, terms, HTML, loops. No torch."""
