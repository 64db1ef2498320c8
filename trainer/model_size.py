"""The size of the run's model without building it, for plans made before there is a tokenizer or text."""

from swarm.run_file import RunFile


def tensor_sizes(run: RunFile) -> list[int]:
    """Elements of each tensor of parameters of `PretrainingModel`; ALBERT's layers share them."""
    model, vocabulary = run.model, run.tokenizer.vocab_size
    width, inner, narrow = model.hidden_size, model.intermediate_size, model.embedding_size

    def norm(size: int) -> list[int]:
        return [size, size]

    def linear(size_in: int, size_out: int) -> list[int]:
        return [size_in * size_out, size_out]

    embeddings = [vocabulary * narrow, run.data.max_length * narrow, 2 * narrow, *norm(narrow)]
    attention = [*(4 * linear(width, width)), *norm(width)]
    layer = [*attention, *linear(width, inner), *linear(inner, width), *norm(width)]
    pooler, order = linear(width, width), linear(width, 2)
    scores = [vocabulary, *linear(width, narrow), *norm(narrow)]  # the projection is that of the embeddings
    return [*embeddings, *linear(narrow, width), *layer, *pooler, *scores, *order]
