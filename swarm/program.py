"""The name and version of the installed program. Its command is `sahaj`, which is another project's name on PyPI."""

import importlib.metadata

DISTRIBUTION = "sahaj-swarm"


def program_version() -> str:
    """The version of the program that runs here."""
    return importlib.metadata.version(DISTRIBUTION)
