"""Text to vocabulary: streams of documents, and the tokenizer that is trained on them."""
