"""What the ledger answers about teams."""

import datetime

from pydantic import Field

from coordinator.ledger.answers import SERVED, Answer


class TeamSummary(Answer):
    """A team on the board."""

    name: str
    members: int = Field(description="now")
    present: int = Field(description="members who are here now")
    samples: int = Field(description="counted for its members while they were in it")
    share: float = Field(description="fraction of the samples of all users")
    tokens_served: int = Field(description=SERVED)
    created: float


class TeamPerson(Answer):
    """Somebody who is in a team, or has given something to it."""

    user: str
    is_member: bool
    present: bool
    samples: int = Field(description="given to this team")
    share: float = Field(description="fraction of the team's samples")
    tokens_served: int = Field(description="while in this team")


class TeamDay(Answer):
    """What was counted for a team on a day (UTC)."""

    day: datetime.date
    samples: int
    share: float = Field(description="fraction of the samples of all users on that day")


class Membership(Answer):
    """The team that a user is in."""

    name: str
    since: float
    samples: int = Field(description="given to this team by this user")
    tokens_served: int
