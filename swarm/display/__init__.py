"""What people see of a long task: a bar of its progress, a chart of what came of it."""
