"""What can be wrong with a model that is to be fine-tuned or evaluated."""

from swarm.errors import SahajError


class ModelError(SahajError):
    """A model is missing or incomplete, has the wrong head, or must not be overwritten."""

    exit_status = 10
