"""Documents from the Hub, JSON lines, Parquet and text files: streamed, mixed and shuffled."""
