"""The layer: a gate that chooses experts for each row, and the mixture of what they answer."""
