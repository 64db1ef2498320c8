"""Documents as tokenized sentences."""

from transformers import PreTrainedTokenizerFast

from trainer.data.sentences import split_sentences, tokenized_documents


def test_sentences_end_at_full_stops_and_at_line_breaks() -> None:
    assert split_sentences("A title\n\nOne boat left. It came back.\n", "en") == [
        "A title",
        "One boat left.",
        "It came back.",
    ]


def test_bengali_sentences_end_at_the_danda() -> None:
    assert len(split_sentences("আমি ভাত খাই। সে বাড়ি যায়। তুমি কোথায় যাও?", "bn")) == 3


def test_no_letter_is_lost_in_splitting(documents: list[str], bengali_documents: list[str]) -> None:
    for language, texts in (("en", documents), ("bn", bengali_documents)):
        for text in texts:
            assert "".join("".join(split_sentences(text, language)).split()) == "".join(text.split())


def test_every_document_comes_back_in_order(documents: list[str], tokenizer: PreTrainedTokenizerFast) -> None:
    together = list(tokenized_documents([*documents, "", "Short."], tokenizer, "en"))
    alone = [next(iter(tokenized_documents([text], tokenizer, "en"))) for text in [*documents, "", "Short."]]
    assert together == alone
    assert together[-2] == []


def test_the_tokenizer_may_have_been_used_with_truncation_before(
    documents: list[str], tokenizer: PreTrainedTokenizerFast
) -> None:
    before = list(tokenized_documents(documents[:3], tokenizer, "en"))
    tokenizer("some text that is longer", truncation=True, max_length=4, padding="max_length")
    assert list(tokenized_documents(documents[:3], tokenizer, "en")) == before
