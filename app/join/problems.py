"""What can go wrong on the way into a run, as one error class with a kind."""

from enum import IntEnum, unique

from swarm.errors import SahajError

LONGEST_LINE = 400  # characters of a message from outside


@unique
class ProblemKind(IntEnum):
    """A kind of problem; the value is the command's exit status.

    Kinds that the coordinator reports have the names of `swarm.access.join_messages.Refusal`.
    """

    BAD_URL = 20
    NO_SUCH_HOST = 21
    COORDINATOR_AWAY = 22  # nothing listens at its address
    NO_ANSWER = 23  # in time
    TLS = 24  # no encrypted connection
    NOT_A_COORDINATOR = 25  # something else answers, or another version
    TOKEN_MISSING = 26
    TOKEN_REJECTED = 27  # the Hub does not know it
    TOKEN_TOO_STRONG = 28  # it may change things on the Hub; joining needs no permission
    NOT_ALLOWED = 29  # the run's access rule does not name this person
    BANNED = 30
    WRONG_VERSION = 31
    WRONG_FINGERPRINT = 32  # this peer would train something else than the others
    PAUSED = 33  # newcomers are asked to come back later
    FINISHED = 34
    TOO_MANY = 35  # attempts
    HUB_AWAY = 36  # the Hugging Face Hub does not answer
    CLOCK_WRONG = 37  # by so much that passes would look expired
    MANIFEST = 38  # what the coordinator hands out cannot be used, or is not safe to use
    MACHINE_TOO_SMALL = 39
    BAD_NAME = 40
    ADMIN_KEY = 41  # missing, or not this run's
    MALFORMED = 42  # a command that the coordinator does not take


AWAY = frozenset({ProblemKind.COORDINATOR_AWAY, ProblemKind.NO_ANSWER, ProblemKind.NO_SUCH_HOST, ProblemKind.TLS})


class JoinProblem(SahajError):
    """A problem of some kind; `status` is the HTTP status behind it, `retry_after` seconds to wait before a retry."""

    def __init__(self, kind: ProblemKind, message: str, *, status: int | None = None, retry_after: float = 0.0):
        super().__init__(message)
        self.kind, self.exit_status = kind, kind.value
        self.status, self.retry_after = status, retry_after


def one_line(text: str) -> str:
    """Text from outside, safe to print: one line of limited length, without control characters."""
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * LONGEST_LINE]).split()
    line = " ".join(words)
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
