"""Text to vocabulary: the tokenizer, how it is trained, and how well it fits a text."""
