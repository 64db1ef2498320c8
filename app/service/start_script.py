"""How a service starts the program, as a script of the shell, and after which ends it does not start again."""

import shlex

from app.installation import command
from app.join.problems import ProblemKind

# nothing changes by itself after these
FINAL = (
    ProblemKind.BAD_URL,
    ProblemKind.TOKEN_MISSING,
    ProblemKind.TOKEN_REJECTED,
    ProblemKind.TOKEN_TOO_STRONG,
    ProblemKind.NOT_ALLOWED,
    ProblemKind.BANNED,
    ProblemKind.FINISHED,
    ProblemKind.MACHINE_TOO_SMALL,
    ProblemKind.BAD_NAME,
)
OUTDATED = (ProblemKind.WRONG_VERSION, ProblemKind.WRONG_FINGERPRINT)  # the run's join.sh mends them

# The run's join.sh upgrades its installation if the run has a newer program, and starts it. It is run only when
# it has arrived whole: curl's own exit statuses mean other things to us, and a login page of a network is no script.
BY_JOIN_SCRIPT = (
    f'text=$(curl -LsSf "$1") || exit {ProblemKind.COORDINATOR_AWAY:d}; '
    f"case $text in '#!/bin/sh'*) ;; *) exit {ProblemKind.NOT_A_COORDINATOR:d} ;; esac; "
    'shift; exec /bin/sh -c "$text" join.sh "$@"'
)
AS_IT_IS = 'exec "$@"'  # the program that is installed here


def final_statuses(*, updates: bool) -> tuple[int, ...]:
    """Exit statuses after which it is not started again.

    Args:
        updates: whether each start brings the program that the run has.
    """
    return tuple(int(kind) for kind in (*FINAL, *(() if updates else OUTDATED)))


def ended(status: int) -> str:
    """Why the program has ended, in a few words."""
    try:
        return ProblemKind(status).name.lower().replace("_", " ")
    except ValueError:
        return f"exit status {status}"


def final_ends_as_success(script: str, final: tuple[int, ...]) -> str:
    """The same script for a service manager that starts again after every end but success; it hands SIGTERM on."""
    return (
        f"({script}) & child=$!; trap 'kill -TERM $child 2>/dev/null' TERM INT; "
        "wait $child; status=$?; "
        "while kill -0 $child 2>/dev/null; do wait $child; status=$?; done; "  # a signal has ended the first wait
        f"case $status in {'|'.join(map(str, final))}) exit 0 ;; esac; exit $status"
    )


def by_hand(link: str, arguments: tuple[str, ...]) -> str:
    """What to type where there are no services."""
    return shlex.join(["nohup", command(), "join", link, *arguments]) + " &"
