"""What all sections of the run file have in common, and the types of their values."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
DecayRate = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of the run file: unknown keys and wrong types are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
