"""Problems the program foresees: one line for the person, a non-zero exit status, never a traceback."""


class SahajError(Exception):
    """A foreseen problem. The message is one line that names the thing, the value and the way out.

    The command line prints the message alone and exits with `exit_status`.
    """

    exit_status = 1


class RunFileError(SahajError):
    """The run file is missing, is not YAML, or holds a key or a value that is not allowed."""

    exit_status = 2


class DataError(SahajError):
    """No usable text: a missing, empty or binary corpus, or every source failed."""

    exit_status = 3


class TokenizerError(SahajError):
    """The tokenizer is missing, unreadable, or does not fit the model."""

    exit_status = 4


class SwarmError(SahajError):
    """The swarm cannot be joined: an unreachable peer, a port in use, a broken identity file."""

    exit_status = 5


class NotJoined(SwarmError):
    """No peer of the swarm answers, or none lets this one in."""


class StorageError(SahajError):
    """A file could not be written whole: a full disk, no permission."""

    exit_status = 6


LONGEST_REASON = 300  # characters


def is_memory_full(error: RuntimeError) -> bool:
    """Whether a GPU has no memory left; its driver's own errors are of no class of their own."""
    return "out of memory" in str(error)


def in_a_line(reason: object) -> str:
    """What a library's error says, as a part of one line for people; its kind where it says nothing."""
    return " ".join(str(reason).split())[:LONGEST_REASON] or type(reason).__name__
