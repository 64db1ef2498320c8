"""Keeps what libraries print off the console."""


def silence_hugging_face() -> None:
    """From now on Transformers and huggingface_hub show no progress bars, and no warnings: some quote signed URLs."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging as transformers

    transformers.disable_progress_bar()  # those of the Hub, too
    transformers.set_verbosity_error()
    hub.set_verbosity_error()
