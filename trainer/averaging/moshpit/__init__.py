"""Averaging in small groups that change (Moshpit SGD)."""
