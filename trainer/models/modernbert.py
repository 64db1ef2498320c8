"""ModernBERT with the masked-LM head (Warner et al. 2024, arXiv:2412.13663), made cheap to train as ALBERT is.

The last feed-forward block, the head and the vocabulary projection run on the masked positions only. The loss is the
same as that of Transformers' `ModernBertForMaskedLM`. There is no head for the order of sentences.
"""

from typing import Any

import torch
from torch import nn
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast
from transformers.masking_utils import create_bidirectional_mask, create_bidirectional_sliding_window_mask

from experts.layer.expert_term import ExpertTerm
from swarm.run_file import RunFile
from trainer.attention import ATTENTION
from trainer.data.batch import Batch
from trainer.models.losses import Losses

GLOBAL = "full_attention"  # what Transformers calls the layers that attend to all places; the others have a window


class ModernBertPretraining(ModernBertForMaskedLM):
    """Transformers' ModernBERT; its checkpoints load as any ModernBERT's do."""

    expert_term: ExpertTerm | None = None  # a run with experts has an ALBERT

    def __init__(self, config: ModernBertConfig):
        super().__init__(config)
        self.set_attn_implementation(ATTENTION)

    def forward(self, batch: Batch) -> Losses:
        """The loss of a batch of B samples with M masked positions."""
        loss = nn.functional.cross_entropy(self.predict(batch).float(), batch.masked_labels)
        return Losses(loss, loss)

    def predict(self, batch: Batch) -> torch.Tensor:
        """Scores of all tokens at the M masked positions of a batch, [M, vocabulary]."""
        scores: torch.Tensor = self.decoder(self.head(self._read_states(batch)))
        return scores

    def _read_states(self, batch: Batch) -> torch.Tensor:
        """The normalized output of the last layer at the masked positions, [M, hidden]."""
        layers: list[Any] = list(self.model.layers)  # torch does not type what a module holds
        hidden = self.model.embeddings(batch.input_ids)
        places = torch.arange(hidden.shape[1], device=hidden.device)[None]
        inputs = {
            kind: {
                "attention_mask": self._mask(kind, hidden, batch.attention_mask),
                "position_embeddings": self.model.rotary_emb(hidden, places, kind),
            }
            for kind in dict.fromkeys(layer.attention_type for layer in layers)
        }
        for layer in layers[:-1]:
            hidden = layer(hidden, **inputs[layer.attention_type])
        last = layers[-1]
        attended, _ = last.attn(last.attn_norm(hidden), **inputs[last.attention_type])
        read = (hidden + attended).flatten(0, 1).index_select(0, batch.masked_positions)
        normalized: torch.Tensor = self.model.final_norm(read + last.mlp(last.mlp_norm(read)))
        return normalized

    def _mask(self, kind: str, hidden: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor | None:
        """Which places attend to which, [B or 1, 1, L, L]; None: each to all."""
        if padding is None and (kind == GLOBAL or hidden.shape[1] <= self.config.sliding_window):
            return None
        make = create_bidirectional_mask if kind == GLOBAL else create_bidirectional_sliding_window_mask
        # with the skip Transformers checks whether anything is masked, which waits for the GPU
        mask: Any = make(
            config=self.config, inputs_embeds=hidden, attention_mask=padding, allow_is_bidirectional_skip=False
        )
        return mask


def build_modernbert(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> ModernBertPretraining:
    """With random weights."""
    return ModernBertPretraining(modernbert_config(run, tokenizer))


def modernbert_config(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> ModernBertConfig:
    """The configuration of Transformers for the run's model.

    What the run file does not say is as in the published ModernBERT: a layer of three attends to all places, the
    others to a window of 128; no biases but the decoder's.
    """
    shape = run.model
    return ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=run.data.max_length,
        embedding_dropout=shape.hidden_dropout_prob,
        mlp_dropout=shape.hidden_dropout_prob,
        classifier_dropout=shape.hidden_dropout_prob,
        attention_dropout=shape.attention_probs_dropout_prob,
        initializer_range=shape.initializer_range,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
    )
