"""The JSON about people and their machines. Of people it holds the name and the avatar, nothing else."""

import datetime
from enum import Enum

from pydantic import Field

from coordinator.http.schemas.public import Answer


class Period(str, Enum):
    """A time for which there is a leaderboard."""

    DAY = "day"
    WEEK = "week"
    RUN = "run"


class LeaderAnswer(Answer):
    """One user over all their devices."""

    user: str
    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    avatar: str | None = Field(description="URL, where it is known")
    samples: int
    tokens: int
    hours: float = Field(description="of presence, added up over devices")
    share: float = Field(description="fraction of the samples of all users")
    sessions: int
    sessions_present: int
    first_seen: float
    last_seen: float


class SessionAnswer(Answer):
    """One process of one user. `session` tells sessions apart and says nothing about the peer."""

    session: str
    user: str
    verified: bool
    avatar: str | None
    device: str
    client_mode: bool
    started: float
    last_seen: float
    present: bool
    left: bool
    step: int
    samples: int
    tokens: int
    samples_per_second: float
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float


class DayAnswer(Answer):
    """What was counted for somebody on a day (UTC)."""

    day: datetime.date
    samples: int
    tokens: int
    hours: float = Field(description="of presence, added up over devices")
    share: float = Field(description="fraction of the samples of all users on that day")


class PersonAnswer(Answer):
    """One user, over all their devices, with their days and sessions."""

    user: str
    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    avatar: str | None = Field(description="URL, where it is known")
    rank: int = Field(description="on the leaderboard of the whole run, the first being 1")
    samples: int
    tokens: int
    hours: float = Field(description="of presence, added up over devices")
    share: float = Field(description="fraction of the samples of all users")
    first_seen: float
    last_seen: float
    present: bool
    days: list[DayAnswer] = Field(description="in order; those on which nothing was counted are left out")
    sessions: list[SessionAnswer] = Field(description="the newest, the one that was heard of last first")


class DeviceAnswer(Answer):
    """Sessions on one kind of device."""

    device: str = Field(description="as the device names itself")
    sessions: int
    present: int
    samples: int
    samples_per_second: float = Field(description="counted for one such session, on average over the time it was there")


class ModeAnswer(Answer):
    """Sessions that accept connections, or those that do not."""

    sessions: int
    present: int
    samples: int


class CountryAnswer(Answer):
    """How many people said that they are in a country."""

    country: str = Field(description="ISO 3166, two letters")
    people: int


class MachinesAnswer(Answer):
    """What the run is computed on; nothing in it tells whose it is."""

    devices: list[DeviceAnswer] = Field(description="the kind that brought most first")
    client_mode: ModeAnswer = Field(description="sessions that accept no connections, as behind a firewall")
    reachable: ModeAnswer
    countries: list[CountryAnswer] = Field(description="of those who said theirs, the one with most people first")
