"""Requests and answers of joining and renewing, over HTTP and libp2p."""

from enum import Enum

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

from swarm.milestones import Standing

TOKENIZER_SUFFIXES = (".json", ".txt", ".model")  # other files beside a tokenizer are neither served nor fetched
LONGEST_RENEWAL = 64 * 1024  # bytes of a request over libp2p


def renewal_handle(run_name: str) -> str:
    """The name of the libp2p call that renews a pass."""
    return f"{run_name}.renew_pass"


class Message(BaseModel):
    """Unknown keys are ignored: a newer program may send more."""

    model_config = ConfigDict(frozen=True)


class JoinRequest(Message):
    """`POST /api/join`, with the Hub token as bearer; also how a pass is renewed."""

    public_key: Base64Bytes = Field(description="of the peer, in hivemind's form")
    peer_id: str = Field(max_length=100, description="libp2p peer id, the hash of the public key")
    version: str = Field(max_length=40, description="of the program, as 0.1.0")
    name: str | None = Field(None, max_length=40, description="a self-chosen name, where the run is open")
    fingerprint: dict[str, str] | None = Field(
        None, description="what the peer trains with, key by key, where it knows: at a renewal"
    )
    team: str | None = Field(None, max_length=100, description="the team to be in from now on")


class RenewalRequest(JoinRequest):
    """What a peer sends over libp2p to renew its pass without a token."""

    pass_: Base64Bytes = Field(alias="pass", serialization_alias="pass", description="the one that it has")


class TokenizerFile(Message):
    """One file of the tokenizer, served at /api/tokenizer/<name>."""

    name: str
    sha256: str
    size: int = Field(description="bytes")


class Manifest(Message):
    """Everything that a trainer needs except the text."""

    run: str = Field(description="the run file, as YAML")
    fingerprint: str
    tokenizer: list[TokenizerFile]


class Renewed(Message):
    """A new pass for a peer that already had one."""

    user: str = Field(description="the person whose peer this is")
    pass_: Base64Bytes = Field(alias="pass", serialization_alias="pass")
    expires: float = Field(description="unix time, seconds")
    notices: Base64Bytes
    initial_peers: list[str]
    standing: Standing | None = Field(
        None, description="what the person has given to the run so far, where it is known"
    )


class JoinAnswer(Renewed):
    """A pass, and how to use it."""

    authority: Base64Bytes = Field(description="public key that passes are checked with")
    manifest: Manifest
    team: str = Field("", description="that the person is in now, if one was asked for")
    no_team: str = Field("", description="why that was not possible, one line")


class Refusal(str, Enum):
    """Why joining was refused; `Refused.error`."""

    MALFORMED = "malformed"  # 422
    TOKEN_MISSING = "token_missing"  # 401
    TOKEN_REJECTED = "token_rejected"  # 401: the Hub does not know it
    NOT_ALLOWED = "not_allowed"  # 403: the organizer's lists do not have them
    BANNED = "banned"  # 403
    WRONG_VERSION = "wrong_version"  # 426
    WRONG_FINGERPRINT = "wrong_fingerprint"  # 409; the message names the fields
    PAUSED = "paused"  # 503
    FINISHED = "finished"  # 410
    TOO_MANY = "too_many"  # 429, with Retry-After
    HUB_AWAY = "hub_away"  # 503: the Hub cannot be asked now


class Refused(Message):
    """The body of every answer with an error status."""

    error: Refusal
    message: str = Field(description="one line for people, with the way out")
