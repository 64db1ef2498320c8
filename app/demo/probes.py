"""The demo's own probes: held-out sentences with one word masked, which the model fills at each checkpoint."""

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from coordinator.ledger.answers import FilledSentence
from corpus.held_out import HELD_OUT
from swarm.access.user_names import is_one_line
from swarm.run_file import MASK, RunFile
from tokenizer.loading import load_tokenizer
from trainer.data.sentences import split_sentences

SENTENCES = 4
OFTEN = 2000  # words within which a word has to come once on average, to be learned in a demo's minutes


def choose_probes(run: RunFile, folder: Path) -> dict[str, str]:
    """Sentences of the held-out text in `folder`, each with the longest frequent word masked, and that word.

    A word is letters between two spaces, and a single token, as which it is returned. The same text gives the same
    probes.
    """
    tokenizer = load_tokenizer(run)
    with (folder / HELD_OUT).open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    counts = Counter(word for text in texts for word in text.split() if _is_word(word))
    least = max(2.0, counts.total() / OFTEN)

    def fits(word: str) -> bool:
        return counts[word] >= least and len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1

    chosen = {}
    for sentence in sample_sentences(texts, run.language, 3 * SENTENCES):
        words = sentence.split()
        answer = max(filter(fits, words), key=len, default=None)
        if answer is None or MASK in sentence or not is_one_line(" ".join(words)):
            continue
        words[words.index(answer)] = MASK
        text = " ".join(words)
        if len(tokenizer(text.replace(MASK, str(tokenizer.mask_token)))["input_ids"]) <= run.data.max_length:
            token = tokenizer(answer, add_special_tokens=False)["input_ids"]
            chosen[text] = str(tokenizer.decode(token)).strip()  # uniform, as the model's guesses are
    return dict(list(chosen.items())[:SENTENCES])


def sample_sentences(texts: Sequence[str], language: str, count: int) -> list[str]:
    """Sentences that fit on the screen, spread over as many of the texts as are needed."""
    fitting = [
        [one for one in split_sentences(text, language) if 50 <= len(one) <= 140] for text in texts[: 10 * count]
    ]
    fitting = [sentences for sentences in fitting if sentences]
    each = -(-count // max(1, len(fitting)))  # from the middle of equal stretches of a document
    chosen = [dict.fromkeys(one[len(one) * (2 * n + 1) // (2 * each)] for n in range(each)) for one in fitting]
    return list(chain.from_iterable(chosen))[:count]


def render(filled: Sequence[FilledSentence], answers: Mapping[str, str]) -> RenderableType:
    """The sentences that have an answer, each with the word that stood there and what the model says."""
    table = Table("sentence", "was", "the model says")
    for one in filled:
        if (answer := answers.get(one.text)) is not None:
            guesses = Text()
            for guess in one.guesses:
                style = "bold green" if guess.token == answer else ""
                guesses.append(f"{guess.token} {guess.probability:.0%}  ", style)
            table.add_row(Text(one.text), Text(answer), guesses)
    return table


def _is_word(text: str) -> bool:
    """Whether a text is letters and the signs that go with them, in any script."""
    return all(unicodedata.category(letter)[0] in "LM" for letter in text)
