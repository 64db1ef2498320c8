"""How much the program and its libraries say."""

import os

from swarm.logging import logs


def quiet(*, verbose: bool, log_level: logs.Level = logs.Level.INFO) -> None:
    """Settle how much the program and its libraries say; it has to be done before those are imported."""
    logs.start(log_level, verbose=verbose)
    # until its messages are in our log hivemind writes to the console; libp2p's daemon would take over this level
    os.environ.setdefault("HIVEMIND_LOGLEVEL", "INFO" if verbose else "CRITICAL")
    os.environ.setdefault("GOLOG_LOG_LEVEL", "error")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info" if verbose else "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if not verbose:
        import warnings

        warnings.filterwarnings("ignore")  # deprecations inside of libraries: nothing a volunteer can do about
