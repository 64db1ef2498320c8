"""Keeps what libraries print off a console that shows something else."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep Transformers' bars and reports off a console that shows the run; errors are still raised."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars
    from transformers.utils import logging

    bar, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    hub_is_silent = are_progress_bars_disabled()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()
            if hub_is_silent:  # Transformers speaks for both
                disable_progress_bars()


def silence_hub() -> None:
    """Have huggingface_hub say nothing from now on but errors: bars, and warnings that quote signed addresses."""
    from huggingface_hub.utils import disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity_error()
