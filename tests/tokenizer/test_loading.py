"""Tokenizers that others made."""

from pathlib import Path

import pytest

from swarm.errors import TokenizerError
from tokenizer.loading import read_tokenizer


def test_a_foreign_tokenizer_and_its_code_are_refused_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", asked.append)
    (tmp_path / "config.json").write_text('{"model_type": "theirs", "auto_map": {"AutoConfig": "code.Config"}}')
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["code.Theirs", null]}}')
    (tmp_path / "code.py").write_text("raise SystemExit")
    with pytest.raises(TokenizerError, match="no readable tokenizer"):
        read_tokenizer(str(tmp_path))
    assert not asked
