"""Global steps of large swarms in small groups that change (Moshpit SGD), beside the log."""
