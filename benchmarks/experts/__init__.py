"""The decentralized mixture of experts against what it replaces: throughput over slow lines, and learning."""
