"""Training a tokenizer, and what Transformers makes of the result."""

import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import psutil
import pytest
from rich.console import Console

from swarm.errors import DataError, StorageError, TokenizerError
from swarm.run_file import RunFile, parse_run
from tests.support.waiting import PATIENCE
from tokenizer.alphabet import LONGEST_WORD, with_common_characters
from tokenizer.loading import load_tokenizer, save_tokenizer, tokenizer_digest
from tokenizer.training import train_tokenizer
from tokenizer.unigram import UnigramSettings, train_unigram

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]


def run_with(folder: Path = Path(), language: str = "en", **section: Any) -> RunFile:
    content = {
        "name": "test",
        "language": language,
        "tokenizer": {"vocab_size": 400, **section},
        "data": {"train": [{"path": "a.txt"}], "max_length": 64},
    }
    return parse_run(content, folder / "run.yaml")


def sentences(count: int = 2_000) -> Iterator[str]:
    """Made-up English whose words have parts in common."""
    rng = random.Random(0)
    stems = ["walk", "talk", "paint", "build", "plant", "farm", "sing", "teach", "count", "report"]
    ends = ["", "s", "er", "ers", "ing", "ed"]
    for _ in range(count):
        yield " ".join(rng.choice(stems) + rng.choice(ends) for _ in range(12)).capitalize() + ", in 1984."


@pytest.fixture(scope="module")
def trained() -> "PreTrainedTokenizerFast":
    return train_tokenizer(run_with(), sentences())


def test_special_tokens_have_the_numbers_of_albert(trained: "PreTrainedTokenizerFast") -> None:
    from transformers import AlbertConfig

    config = AlbertConfig()
    assert trained.pad_token_id == config.pad_token_id == 0
    assert trained.cls_token_id == trained.bos_token_id == config.bos_token_id == 2
    assert trained.sep_token_id == trained.eos_token_id == config.eos_token_id == 3
    assert trained.convert_ids_to_tokens(list(range(5))) == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def test_two_segments_are_framed_as_albert_frames_them(trained: "PreTrainedTokenizerFast") -> None:
    encoded = trained("walks", "talks")
    tokens = trained.convert_ids_to_tokens(encoded["input_ids"])
    second = tokens.index("[SEP]") + 1
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
    assert encoded["token_type_ids"] == [0] * second + [1] * (len(tokens) - second)
    single = trained("walks")
    assert single["input_ids"] == encoded["input_ids"][:second]


def test_text_comes_back_as_it_was_normalized(trained: "PreTrainedTokenizerFast") -> None:
    for text in ["Walking painters sing, in 1984.", "an unseen word: {quixotic}!", "  two   spaces "]:
        decoded = trained.decode(trained(text)["input_ids"], skip_special_tokens=True)
        assert decoded == " ".join(text.split())


def test_bengali_comes_back_as_it_was_normalized() -> None:
    texts = ["আমি তোমার কাছে যাব।", "তুমি আমার কথা শোন॥", "দুঃখের দিনে র\u200d\u09cdযাব আসে।"] * 50
    tokenizer = train_tokenizer(run_with(language="bn", vocab_size=2_000), texts)
    decoded = tokenizer.decode(tokenizer("আমার দু:খ| র\u09cdযাব যা\u200cব")["input_ids"], skip_special_tokens=True)
    assert decoded == "আমার দুঃখ। র\u200d\u09cdযাব যাব"


def test_a_mask_in_a_text_takes_the_space_before_it_along(trained: "PreTrainedTokenizerFast") -> None:
    walk = trained("walk", add_special_tokens=False)["input_ids"]
    masked = trained("walk [MASK] walk", add_special_tokens=False)["input_ids"]
    assert masked == [*walk, trained.mask_token_id, *walk]


def test_auto_tokenizer_loads_the_folder_without_a_network(
    trained: "PreTrainedTokenizerFast", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AlbertConfig, AutoTokenizer

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    save_tokenizer(trained, tmp_path / "tokenizer")
    AlbertConfig(vocab_size=len(trained)).save_pretrained(tmp_path / "tokenizer")  # as in a checkpoint
    loaded = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    text = "Walking in 1984, ２ times"
    assert loaded(text, "talks") == trained(text, "talks")
    assert loaded.mask_token_id == 4 and loaded.model_max_length == 64
    again = load_tokenizer(run_with(tmp_path, path="tokenizer"))
    assert tokenizer_digest(again) == tokenizer_digest(trained)


def test_the_digest_ignores_the_last_call_and_notices_another_normalization(
    trained: "PreTrainedTokenizerFast",
) -> None:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    before = tokenizer_digest(trained)
    trained("walks", padding="max_length", truncation=True)
    assert tokenizer_digest(trained) == before
    changed = Tokenizer.from_str(trained.backend_tokenizer.to_str().replace('"NFKC"', '"NFKD"'))
    assert tokenizer_digest(PreTrainedTokenizerFast(tokenizer_object=changed)) != before


def test_only_so_many_documents_are_read() -> None:
    read = 0

    def counting() -> Iterator[str]:
        nonlocal read
        for text in sentences():
            read += 1
            yield text

    train_tokenizer(run_with(max_documents=100), counting())
    assert read == 100


def test_a_small_text_gives_fewer_tokens_and_a_line_that_says_so() -> None:
    output = io.StringIO()
    tokenizer = train_tokenizer(run_with(vocab_size=30_000), sentences(50), progress=Console(file=output))
    assert 100 < len(tokenizer) < 30_000
    lines = [line for line in output.getvalue().splitlines() if line.startswith("The text is small")]
    assert len(lines) == 1 and f"{len(tokenizer):,}" in lines[0] and "30,000" in lines[0]


def test_progress_is_plain_lines_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    train_tokenizer(run_with(), sentences(200), progress=Console(file=output))
    assert "learning tokens from 200 documents" in output.getvalue()
    assert "\x1b" not in output.getvalue()


def test_a_vocabulary_too_small_for_the_characters_says_what_is_needed() -> None:
    texts = ["".join(chr(0x4E00 + number) for number in range(100))] * 10
    with pytest.raises(TokenizerError, match=r"tokenizer\.vocab_size must be at least 106, .* got 64"):
        train_tokenizer(run_with(vocab_size=64), texts)


@pytest.mark.parametrize("vocab_size", [64, 32_000])
def test_no_text_at_all_is_an_error(vocab_size: int) -> None:
    with pytest.raises(TokenizerError, match=r"no text to train a tokenizer on"):
        train_tokenizer(run_with(vocab_size=vocab_size), [])


@pytest.mark.parametrize("vocab_size", [64, 32_000])
def test_a_single_short_word_is_enough(vocab_size: int) -> None:
    tokenizer = train_tokenizer(run_with(vocab_size=vocab_size), ["a"])
    assert tokenizer.decode(tokenizer("a a")["input_ids"], skip_special_tokens=True) == "a a"


def test_a_text_that_crashes_the_trainer_is_one_line() -> None:
    rng = random.Random(0)
    word = "".join(chr(0x4E00 + rng.randrange(3_000)) for _ in range(300_000))
    settings = UnigramSettings(language="zh", lowercase=False, vocab_size=8_000, certain=())
    with pytest.raises(TokenizerError, match="the Unigram trainer failed on this text"):
        train_unigram(settings, [word])
    assert len(train_tokenizer(run_with(vocab_size=8_000), [word])) > 3_000


def test_an_error_of_the_documents_arrives_as_it_is() -> None:
    def failing() -> Iterator[str]:
        yield "one document"
        raise DataError("a: gone")

    with pytest.raises(DataError, match="a: gone"):
        train_tokenizer(run_with(), failing())


def test_an_error_of_the_documents_arrives_when_the_trainer_is_gone_already() -> None:
    def from_a_broken_disk() -> Iterator[str]:
        yield "the trainer has not read this yet"
        for child in psutil.Process().children():
            if "tokenizer.unigram" in " ".join(child.cmdline()):
                child.kill()
                child.wait()
        raise DataError("the disk is gone")

    with pytest.raises(DataError, match="the disk is gone"):
        train_unigram(UnigramSettings("en", False, 300, ()), from_a_broken_disk())


def test_a_file_of_the_user_called_tokenizer_is_not_the_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tokenizer.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong one')")
    assert train_unigram(UnigramSettings("en", False, 300, ()), ["walking and talking"]).get_vocab_size() > 5


def test_rare_characters_get_no_token_but_the_certain_ones_do() -> None:
    alphabets: list[frozenset[str]] = []
    texts = ["a" * 600] * 2_000 + ["彩+"]
    cleaned = list(with_common_characters(texts, ["+"], alphabets.append))
    assert alphabets == [frozenset("a+")]
    assert cleaned[-1] == " +"


def test_endless_words_are_cut_for_the_trainer() -> None:
    (cleaned,) = with_common_characters(["x" * 300_000], [], lambda alphabet: None)
    assert max(len(word) for word in cleaned.split()) == LONGEST_WORD
    assert cleaned.replace(" ", "") == "x" * 300_000


def test_printable_characters_are_known_even_if_never_seen() -> None:
    tokenizer = train_tokenizer(run_with(vocab_size=2_000), sentences())
    assert tokenizer.unk_token_id not in tokenizer("#{~}@Z+9")["input_ids"]
    assert tokenizer.unk_token_id in tokenizer("彩")["input_ids"]


# --- loading


def test_a_missing_tokenizer_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(
        TokenizerError, match=r"mine: no such tokenizer folder; make it with `sahaj tokenizer train RUN`"
    ):
        load_tokenizer(run_with(tmp_path, path="mine"))


def test_a_broken_tokenizer_is_one_line(trained: "PreTrainedTokenizerFast", tmp_path: Path) -> None:
    save_tokenizer(trained, tmp_path / "mine")
    (tmp_path / "mine/tokenizer.json").write_text("{")
    with pytest.raises(TokenizerError, match="mine: no readable tokenizer") as caught:
        load_tokenizer(run_with(tmp_path, path="mine"))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    engine = Tokenizer(models.WordLevel({"a": 0, "[CLS]": 1, "[SEP]": 2, "<pad>": 3}, unk_token="a"))
    bare = PreTrainedTokenizerFast(
        tokenizer_object=engine, cls_token="[CLS]", sep_token="[SEP]", pad_token="<pad>", unk_token="a"
    )
    save_tokenizer(bare, tmp_path / "mine")
    with pytest.raises(TokenizerError, match="the tokenizer has no mask_token"):
        load_tokenizer(run_with(tmp_path, path="mine"))


def test_a_hub_name_that_is_neither_folder_nor_repository_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    unreachable = OSError("We couldn't connect to 'https://huggingface.co'\nmore")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", Mock(side_effect=unreachable))
    with pytest.raises(TokenizerError, match=r"owner/name: no readable tokenizer .*connect.*no folder .*owner/name"):
        load_tokenizer(run_with(tmp_path, path="owner/name"))


def test_saving_replaces_a_tokenizer_but_nothing_else(trained: "PreTrainedTokenizerFast", tmp_path: Path) -> None:
    save_tokenizer(trained, tmp_path / "mine")
    (tmp_path / "mine/.DS_Store").touch()  # of a file manager
    save_tokenizer(trained, tmp_path / "mine")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").touch()
    (tmp_path / "mine/model.safetensors").touch()  # a tokenizer beside a model
    for folder, name in ("thesis", "chapter.tex"), ("mine", "model.safetensors"):
        with pytest.raises(TokenizerError, match=rf"other than a tokenizer \({name}\).*; set tokenizer\.path"):
            save_tokenizer(trained, tmp_path / folder)
        assert (tmp_path / folder / name).exists()
    with pytest.raises(StorageError, match="Not a directory"):
        save_tokenizer(trained, tmp_path / "mine/tokenizer.json")


def test_ctrl_c_while_learning_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: test\ntokenizer: {path: out}\ndata: {train: [{path: a.txt}]}\n")
    rng = random.Random(0)
    # unlike words, so that learning takes many seconds
    words = ("".join(rng.choices("abcdefghijklmnop", k=12)) for _ in range(300_000))
    (tmp_path / "a.txt").write_text("\n".join(words))
    program = (
        "import pathlib, signal, tokenizer.command as c\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever runs the tests may ignore it
        "c.train_from_run(pathlib.Path('run.yaml'))"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "learning tokens" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert errors.strip().endswith("KeyboardInterrupt") and process.returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "run.yaml"]
