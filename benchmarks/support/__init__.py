"""What several benchmarks need: their command line, and peers on hosts of their own."""
