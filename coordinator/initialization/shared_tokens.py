"""Finds the tokens that two tokenizers have in common, also between SentencePiece and WordPiece."""

import json

from transformers import PreTrainedTokenizerFast

from tokenizer.normalization import SPACE

ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def shared_tokens(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast) -> dict[int, int]:
    """New token -> old token, in the order of the new ones.

    Special tokens are paired by their roles; those without a role, such as language codes, are left out.
    """
    old_spellings = {spelling: token for token, spelling in spellings(old).items()}
    pairs = {token: old_spellings[text] for token, text in spellings(new).items() if text in old_spellings}
    for role in ROLES:
        theirs, ours = getattr(old, f"{role}_id"), getattr(new, f"{role}_id")
        if theirs is not None and ours is not None:
            pairs[ours] = theirs
    return dict(sorted(pairs.items()))


def spellings(tokenizer: PreTrainedTokenizerFast) -> dict[int, str]:
    """Ordinary tokens as SentencePiece writes them: with a mark where a word begins.

    WordPiece marks the tokens that continue a word instead.
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    goes_on: str = model.get("continuing_subword_prefix") or ""
    special = set(tokenizer.all_special_ids)
    return {
        token: _with_space_mark(text, goes_on) if goes_on else text
        for text, token in tokenizer.get_vocab().items()
        if token not in special
    }


def _with_space_mark(text: str, goes_on: str) -> str:
    return text.removeprefix(goes_on) if text.startswith(goes_on) else SPACE + text
