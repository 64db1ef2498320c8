"""The section of the run file about releases on the Hub."""

from typing import Literal

from pydantic import Field

from swarm.run_file.section import Count, Section


class ReleaseSection(Section):
    """Where checkpoints are released on the Hub, and which of them."""

    repo: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="a repository on the Hub, as owner/name (made if there is none)",
    )
    private: bool = Field(False, description="make it one that only its owners see")
    every: Count = Field(
        500, description="global steps; release the first checkpoint at or after each multiple of them"
    )
    milestones: Count | None = Field(
        None, description="global steps; the first release at or after each multiple of them has a tag, step-N"
    )
    license: str | None = Field(None, description="of the model, as apache-2.0")
    contributors: Literal["verified", "all", "none"] = Field(
        "none", description="whom the model card names: people whom the Hub vouches for, everybody, or nobody"
    )
