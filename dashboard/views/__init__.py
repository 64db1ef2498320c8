"""The pages of the dashboard, one a file; `sentences` is a part of two of them."""
