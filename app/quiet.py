"""How much the libraries say on the console."""

import os


def quiet(*, verbose: bool) -> None:
    """Settle how much the libraries say; it has to be done before they are imported."""
    os.environ.setdefault("HIVEMIND_LOGLEVEL", "INFO" if verbose else "CRITICAL")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info" if verbose else "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if not verbose:
        import logging
        import warnings

        warnings.filterwarnings("ignore")  # deprecations inside of libraries: nothing a volunteer can do about
        # what peers that vanish leave behind in asyncio; rounds that fail are told in words of our own
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
