"""The model card of a release: a pure function from facts to text that the Hub takes."""

import json
import math
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from huggingface_hub import EvalResult, ModelCardData

from coordinator.http.badges import HUB, plain
from coordinator.notebook.build import FILE_NAME
from coordinator.public_run import base_model
from coordinator.release.card_text import (
    ALGORITHMS,
    CARBON_ASSUMPTIONS,
    CITATION,
    LIMITS,
    NOTEBOOKS,
    SNIPPET,
    TRAINING,
)
from coordinator.release.cost import CARBON, OTHER_GPU_WATTS, PROCESSOR_WATTS, REST_WATTS, cost_of
from coordinator.release.facts import Credit, Facts
from swarm.run_file import MASK, DataSource, RunFile

OPTIMIZERS = {"lamb": "LAMB", "adamw": "AdamW", "muon": "Muon for hidden matrices, AdamW for the rest"}
MOST_NAMED = 2000  # contributors in the table; the page has to open


def card(facts: Facts) -> str:
    """The text of README.md.

    Whatever people have written into the run file, and names of people, stay text and become no markup.
    """
    sections = (
        _head(facts),
        _usage(facts),
        _data(facts.run),
        _training(facts),
        _results(facts),
        _contributors(facts),
        _cost(facts),
        LIMITS,
        CITATION.format(
            key=facts.run.name.replace("-", "_"),
            title=facts.run.name,
            year=facts.state.saved_at[:4],
            url=HUB + facts.repo,
        ),
    )
    return f"---\n{metadata(facts).to_yaml()}\n---\n\n" + "\n\n".join(one.strip() for one in sections if one) + "\n"


def metadata(facts: Facts) -> ModelCardData:
    """What the Hub reads of a card.

    Raises:
        ValueError: figures that the Hub would not take.
    """
    run = facts.run
    datasets = sorted({source.hub for source in run.data.train if source.hub})
    probes = [{"text": probe.replace(MASK, facts.mask)} for probe in run.coordinator.probes]
    results = list(_eval_results(facts))
    return ModelCardData(
        language=run.language,
        license=run.release.license if run.release else None,
        library_name="transformers",
        pipeline_tag="fill-mask",
        mask_token=facts.mask,
        tags=["albert", "collaborative-training", "hivemind", "sahaj"],
        base_model=base_model(run),
        datasets=datasets or None,
        model_name=facts.repo if results else None,
        eval_results=results or None,
        widget=probes or None,
    )


def _head(facts: Facts) -> str:
    run, state = facts.run, facts.state
    about = f"{plain(run.description)}\n\n" if run.description else ""
    picture = f"\n\n![The loss by global step]({facts.curve})" if facts.curve else ""
    page, raw = (f"{HUB}{facts.repo}/{kind}/main/{FILE_NAME}" for kind in ("blob", "resolve"))
    buttons = NOTEBOOKS.format(quoted=quote(page, safe=""), raw=raw) if FILE_NAME in facts.made else ""
    return (
        f"# {plain(run.name)}\n\n{about}"
        f"An ALBERT of {facts.parameters:,} parameters and {facts.vocabulary:,} tokens, for text in the language "
        f"{plain(run.language)}, pretrained from {_beginning(run)} by volunteers on their own computers. This "
        f"is the model after global step {state.step:,} of {run.optimizer.total_steps:,}; older ones are in the "
        f"history of this repository.{buttons}{picture}"
    )


def _beginning(run: RunFile) -> str:
    if run.model.start_from is None:
        is_counted = run.model.embeddings == "counted"
        return "random weights and counts of its text" if is_counted else "random weights"
    name = base_model(run)
    return f"the weights of [{name}]({HUB}{name})" if name else "the weights of another model of the organizer"


def _usage(facts: Facts) -> str:
    probes = [probe for probe in facts.run.coordinator.probes if "`" not in probe]  # it would end the block of code
    text = (probes[0] if probes else f"This is a {MASK}.").replace(MASK, facts.mask)
    return SNIPPET.format(repo=facts.repo, text=json.dumps(text, ensure_ascii=False))


def _data(run: RunFile) -> str:
    weights = sum(source.weight for source in run.data.train)
    rows = [
        (*_source(source), f"{source.weight / weights:.0%} of the training documents") for source in run.data.train
    ] + [(*_source(source), "held out, for evaluation") for source in run.data.validation]
    return (
        f"## Data\n\nText in the language {plain(run.language)}, in the order of its sources, shuffled in a "
        f"buffer.\n\n{_table(('source', 'licence', 'used for'), rows)}"
    )


def _source(source: DataSource) -> tuple[str, str]:
    licence = plain(source.license) if source.license else "not stated by the organizer"
    if source.hub is None:
        return "files of the organizer", licence
    config = f", configuration {plain(source.config)}" if source.config else ""
    link = f"[{plain(source.hub)}]({HUB}datasets/{quote(source.hub)})"
    return f"{link}{config}, split {plain(source.split)}", licence


def _training(facts: Facts) -> str:
    run, average, optimizer = facts.run, facts.run.averaging, facts.run.optimizer
    overlap = ", one step late, while the next ones are computed" if average.overlap else ""
    rows = [
        ("architecture", f"ALBERT, {run.model.num_hidden_layers} layers that share their weights"),
        ("width of a layer", str(run.model.hidden_size)),
        ("width of embeddings, of feed-forward layers", f"{run.model.embedding_size}, {run.model.intermediate_size}"),
        ("attention heads", str(run.model.num_attention_heads)),
        ("dropout, of attention", f"{run.model.hidden_dropout_prob:g}, {run.model.attention_probs_dropout_prob:g}"),
        ("tokens in a sample", str(run.data.max_length)),
        ("masked", f"{run.data.masked_fraction:.0%} of the tokens, in spans of up to {run.data.max_ngram}"),
        ("optimizer", OPTIMIZERS[optimizer.name]),
        ("its betas and epsilon", f"{optimizer.betas[0]:g}, {optimizer.betas[1]:g}, {optimizer.epsilon:g}"),
        ("learning rate at its peak", f"{optimizer.learning_rate:g}"),
        ("its warm-up, linear as the decay", f"{optimizer.warmup_steps:,} global steps"),
        ("weight decay", f"{optimizer.weight_decay:g}"),
        ("gradient norm", f"at most {optimizer.max_gradient_norm:g}"),
        ("batch", f"{average.target_batch_size:,} samples in a global step"),
        ("averaging of gradients", f"{average.compression}{overlap}"),
        ("global steps", f"{facts.state.step:,} of {optimizer.total_steps:,}"),
        ("samples", f"{facts.state.samples:,}"),
        ("software", facts.state.software),
    ]  # fmt: skip
    return f"## Training\n\n{TRAINING}\n\n{_table(('hyperparameter', 'value'), rows)}\n\n{ALGORITHMS}"


def _results(facts: Facts) -> str:
    rows = [(name, value) for name, value in _scores(facts)]
    if not rows:
        return "## Evaluation\n\nThis checkpoint was not evaluated on held-out text."
    return (
        f"## Evaluation\n\nOn {facts.run.data.validation_samples:,} pairs of text that was held out, masked once and "
        f"for all.\n\n{_table(('score', 'value'), rows)}"
    )


def _scores(facts: Facts) -> Iterator[tuple[str, str]]:
    state = facts.state
    if state.eval_loss is not None:
        yield "held-out loss of masked tokens, nats", f"{state.eval_loss:.3f}"
    if state.unigram_loss is not None and state.below_unigram is not None:
        yield "loss of a table of word frequencies on the same tokens, nats", f"{state.unigram_loss:.3f}"
        yield "so much is the model below that table, nats", f"{state.below_unigram:.3f}"
    if state.perplexity is not None:
        yield "perplexity of masked tokens", f"{state.perplexity:,.2f}"
    if state.sentence_order_accuracy is not None:
        yield "order of two segments told right", f"{state.sentence_order_accuracy:.1%}"


def _eval_results(facts: Facts) -> Iterator[EvalResult]:
    state = facts.state
    sources = facts.run.data.validation
    named = next((source.hub for source in sources if source.hub), None)
    for kind, value, name in (
        ("loss", state.eval_loss, "held-out loss of masked tokens (nats)"),
        ("perplexity", state.perplexity, "perplexity of masked tokens"),
        ("accuracy", state.sentence_order_accuracy, "sentence order accuracy"),
    ):
        if value is not None and math.isfinite(value):
            yield EvalResult(
                task_type="fill-mask",
                dataset_type=named or "text",
                dataset_name=f"held-out text of {facts.run.name}",
                metric_type=kind,
                metric_value=round(value, 4),
                metric_name=name,
            )


def _contributors(facts: Facts) -> str:
    if facts.work is None:
        return ""
    credit = facts.work.credit
    if not credit.named and not credit.others:
        return "## Contributors\n\nNobody's samples are in this model yet."
    listed = _named(credit)
    return f"## Contributors\n\nThese people's computers made this model. Thank you!\n\n{listed}"


def _named(credit: Credit) -> str:
    rows = [
        (
            f"[{plain(one.user)}]({HUB}{quote(one.user, safe='')})" if one.verified else plain(one.user),
            f"{one.share:.1%}",
            f"{one.hours:,.1f}",
        )
        for one in credit.named[:MOST_NAMED]
    ]
    unnamed = credit.others + len(credit.named[MOST_NAMED:])
    share = credit.others_share + sum(one.share for one in credit.named[MOST_NAMED:])
    if unnamed:
        who = "one more person" if unnamed == 1 else f"{unnamed:,} more people"
        rows.append((who if rows else who.replace(" more", ""), f"{share:.1%}", ""))
    return _table(("who", "share of the samples", "hours of all devices"), rows)


def _cost(facts: Facts) -> str:
    if facts.work is None:
        return ""
    cost = cost_of(facts.run, facts.vocabulary, facts.work.tokens, facts.work.hours)
    rows = [
        ("samples, tokens", f"{facts.work.samples:,}, {facts.work.tokens:,}"),
        ("hours of devices", f"{cost.hours:,.1f}"),
        ("floating-point operations of training", f"{cost.operations:.2g}"),
        ("electricity", f"{cost.energy:,.3g} kWh"),
        ("carbon", f"{cost.carbon:,.3g} kg of CO2 equivalents"),
    ]
    assumptions = CARBON_ASSUMPTIONS.format(
        carbon=f"{CARBON:g}", gpu=f"{OTHER_GPU_WATTS:g}", processor=f"{PROCESSOR_WATTS:g}", rest=f"{REST_WATTS:g}"
    )
    return f"## Compute and carbon, estimated\n\n{_table(('what', 'how much'), rows)}\n\n{assumptions}"


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(names), *([*row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
