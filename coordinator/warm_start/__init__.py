"""A run that begins with a trained model: `model.start_from` of the run file."""
