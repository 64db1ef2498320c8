"""What the coordinator answers about teams, as far as the pages need it."""

from dashboard.api.answers import Answer, Day


class Team(Answer):
    """A team on the board."""

    name: str
    members: int = 0
    present: int = 0
    samples: int = 0
    share: float = 0.0


class TeamPerson(Answer):
    """Somebody in a team, or who has given to it; the share is of the team's samples."""

    user: str
    is_member: bool = False
    present: bool = False
    samples: int = 0
    share: float = 0.0


class TeamPage(Team):
    """All about one team."""

    rank: int
    people: tuple[TeamPerson, ...] = ()
    days: tuple[Day, ...] = ()
