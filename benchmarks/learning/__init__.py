"""What a sample teaches: `python -m benchmarks.learning`, and others about learning."""
