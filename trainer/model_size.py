"""The size of the run's model and the cost of a sample, without building it: for plans made before there is text."""

from swarm.run_file import RunFile


def tensor_sizes(run: RunFile) -> list[int]:
    """Elements of each tensor of parameters of `PretrainingModel`; ALBERT's layers share them.

    Experts are on their hosts, so they do not count; the gate and the way to them do.
    """
    model, vocabulary = run.model, run.tokenizer.vocab_size
    width, inner, narrow = model.hidden_size, model.intermediate_size, model.embedding_size
    if model.architecture == "modernbert":  # without biases but the decoder's
        layer = [width, 3 * width * width, width * width, width, 2 * inner * width, inner * width]
        layers = model.num_hidden_layers * layer
        head = [width * width, width, vocabulary]
        return [vocabulary * width, width, *layers[1:], width, *head]  # what comes first is normalized already

    def norm(size: int) -> list[int]:
        return [size, size]

    def linear(size_in: int, size_out: int) -> list[int]:
        return [size_in * size_out, size_out]

    embeddings = [vocabulary * narrow, run.data.max_length * narrow, 2 * narrow, *norm(narrow)]
    attention = [*(4 * linear(width, width)), *norm(width)]
    layer = [*attention, *linear(width, inner), *linear(inner, width), *norm(width)]
    pooler, order = (linear(width, width), linear(width, 2)) if model.learns_order else ([], [])
    scores = [vocabulary, *linear(width, narrow), *norm(narrow)]  # the projection is that of the embeddings
    term: list[int] = []
    if run.experts is not None:
        sent = run.experts.width
        term = [*linear(width, sum(run.experts.grid)), *linear(width, sent), sent * width]
    return [*embeddings, *linear(narrow, width), *layer, *pooler, *scores, *order, *term]


def sample_flops(run: RunFile) -> float:
    """Floating-point operations in the matrix products of a sample's forward and backward pass, at its full length.

    The last feed-forward block and the vocabulary are computed where a head reads them (`trainer/models/`).
    """
    model, tokens, vocabulary = run.model, run.data.max_length, run.tokenizer.vocab_size
    width, inner, narrow = model.hidden_size, model.intermediate_size, model.embedding_size
    read = run.data.masked_fraction * tokens
    rows = (model.num_hidden_layers - 1) * tokens + read  # of feed-forward blocks
    attention = model.num_hidden_layers * tokens * (4 * width * width + 2 * tokens * width)
    if model.architecture == "modernbert":
        others = rows * 3 * width * inner + read * width * (width + vocabulary)
    else:
        others = (rows + 1) * 2 * width * inner + read * narrow * (width + vocabulary)
        others += tokens * narrow * width + width * width
    # two operations for each product and its sum; the backward pass has twice the products of the forward pass
    return 6.0 * (attention + others)
