"""What a coordinator's refusal says, in the language of the person whom it concerns."""

from app.join.problems import one_line
from swarm.access.join_messages import Refusal, Refused
from swarm.access.team_refusals import in_own_language
from swarm.language import SOURCE, _, current, mark

# a coordinator gives its reasons in English; these say what is the matter
REASONS = {
    Refusal.TOKEN_MISSING: mark("this run asks who you are; show a Hugging Face token, one without any permission"),
    Refusal.TOKEN_REJECTED: mark(
        "your Hugging Face token was not accepted; make another one, and set HF_TOKEN to it or type it where you are "
        "asked"
    ),
    Refusal.NOT_ALLOWED: mark("this run does not let you in; ask the organizer to add you"),
    Refusal.BANNED: mark("the organizer has banned you from this run; ask the organizer why"),
    Refusal.WRONG_VERSION: mark(
        "your program's version differs from the run's; join with the command or the notebook that the organizer shares"
    ),
    Refusal.WRONG_FINGERPRINT: mark("your program has other settings than the run; install the program of the run"),
    Refusal.FINISHED: mark("this run is finished; thank you for coming"),
    Refusal.PAUSED: mark("the organizer has closed this run to newcomers for now; try again later"),
    Refusal.TOO_MANY: mark("too many attempts; try again later"),
    Refusal.HUB_AWAY: mark("the Hugging Face Hub does not answer the coordinator; try again in some minutes"),
}


def told(refused: Refused) -> str:
    """The reason as one line; empty if the coordinator gives none."""
    given = one_line(refused.message)
    own = in_own_language(_(given))
    if current() == SOURCE or refused.error not in REASONS or own != given:
        return own
    reason = _(REASONS[refused.error])
    return f"{reason} ({given})" if given else reason
