"""The section of the run file about the model."""

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from swarm.language import mark
from swarm.run_file.section import Count, Probability, Section
from swarm.run_file.validation_messages import shown

ALBERT_KEYS = {  # and what other architectures do without them
    "embedding_size": "whose embeddings are hidden_size wide",
    "sentence_order": "which learns masked tokens alone",
}


class ModelSection(Section):
    """The encoder and its shape; the vocabulary size comes from the tokenizer."""

    architecture: Literal["albert", "modernbert"] = Field(
        "albert", description="albert, whose layers share their weights, or modernbert"
    )
    hidden_size: Count = Field(1024, description="width of a layer")
    num_hidden_layers: Count = Field(24, description="layers; of ALBERT, how often the shared one is applied")
    num_attention_heads: Count = Field(16, description="attention heads; must divide hidden_size")
    intermediate_size: Count = Field(
        4096, description="width of the feed-forward layer; ModernBERT's has a gate as wide"
    )
    embedding_size: Count = Field(128, ge=2, description="width of ALBERT's factorized token embedding")
    sentence_order: bool = Field(
        True, description="whether an ALBERT also learns the order of two segments; without it words take fewer samples"
    )
    hidden_dropout_prob: Probability = Field(0.0, description="dropout after each layer; ALBERT trains best without")
    attention_probs_dropout_prob: Probability = Field(0.0, description="dropout of attention weights")
    initializer_range: float = Field(0.02, gt=0, description="standard deviation of the initial weights")
    seed: int = Field(0, ge=0, lt=10**9, description="seed of the initial weights, the same on all peers")
    embeddings: Literal["counted", "random"] = Field(
        "counted",
        description="of tokens, at the beginning: from counts of the run's text (which tokens are near each other, and "
        "how frequent each is), or random; not used with start_from",
    )
    start_from: str | None = Field(
        None,
        min_length=1,
        description="a trained model of the same shape to begin with: a Hub repository, as owner/name, or a folder, "
        "as ./folder; the coordinator alone reads it",
    )

    @property
    def shape(self) -> dict[str, Any]:
        """What the model is, without the weights that it begins with; the names are those of Transformers' ALBERT."""
        return self.model_dump(exclude={"architecture", "sentence_order", "seed", "embeddings", "start_from"})

    @property
    def kind(self) -> str:
        """What sentences call the model."""
        return {"albert": mark("an ALBERT"), "modernbert": mark("a ModernBERT")}[self.architecture]

    @property
    def learns_order(self) -> bool:
        """Whether it also learns to tell the order of two segments."""
        return self.architecture == "albert" and self.sentence_order

    @model_validator(mode="after")
    def has_no_key_of_another_architecture(self) -> "ModelSection":
        """A key of which the model makes no use would mislead its reader."""
        for key, why in ALBERT_KEYS.items():
            if self.architecture != "albert" and key in self.model_fields_set:
                raise ValueError(
                    f"{key} is a key of ALBERT, got {shown(getattr(self, key))} with architecture {self.architecture}, "
                    f"{why}; leave it out"
                )
        return self

    @model_serializer(mode="wrap")
    def _as_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the keys that may not be there."""
        content: dict[str, Any] = dump(self)
        if self.architecture != "albert":
            content = {key: value for key, value in content.items() if key not in ALBERT_KEYS}
        return content

    @model_validator(mode="after")
    def heads_divide_width(self) -> "ModelSection":
        """Attention heads share a layer's width evenly."""
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads, "
                f"got {self.hidden_size} and {self.num_attention_heads}"
            )
        width = self.hidden_size // self.num_attention_heads
        if self.architecture == "modernbert" and width % 2:
            raise ValueError(
                f"hidden_size / num_attention_heads must be even, as ModernBERT turns pairs of numbers by their "
                f"position, got {width}; choose another number of heads"
            )
        return self
