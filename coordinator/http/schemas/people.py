"""The JSON about people and their machines. Of people it has the name and the avatar, nothing else."""

from enum import Enum

from pydantic import BaseModel, Field

from coordinator.ledger.answers import (
    Answer,
    Contributor,
    CountryCount,
    DeviceCount,
    Leader,
    ModeCount,
    SessionFigures,
    UserDay,
)


class Period(str, Enum):
    """A time for which there is a leaderboard."""

    DAY = "day"
    WEEK = "week"
    RUN = "run"


class Profile(BaseModel):
    """What is shown beside a name."""

    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    avatar: str | None = Field(description="URL, where it is known")


class LeaderAnswer(Leader, Profile):
    """One user over all their devices."""


class SessionAnswer(SessionFigures, Profile):
    """One process of one user."""

    session: str = Field(description="tells sessions apart and says nothing about the peer")


class PersonAnswer(Contributor, Profile):
    """One user, over all their devices, with their days and sessions."""

    rank: int = Field(description="on the leaderboard of the whole run, the first being 1")
    present: bool
    days: list[UserDay] = Field(description="in order; those on which nothing was counted are left out")
    sessions: list[SessionAnswer] = Field(description="by their newest reports, the newest first")


class MachinesAnswer(Answer):
    """What the run is computed on; nothing in it tells whose it is."""

    devices: list[DeviceCount] = Field(description="those that contributed most first")
    client_mode: ModeCount = Field(description="sessions that accept no connections, as behind a firewall")
    reachable: ModeCount
    countries: list[CountryCount] = Field(description="of users who gave theirs, those with most users first")
