"""The model card of a release: a pure function from facts to the text of README.md; its words are in card.md.jinja."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from coordinator.http.badges import HUB, plain
from coordinator.notebook.build import FILE_NAME
from coordinator.public_run import base_model
from coordinator.release import cost
from coordinator.release.facts import Credit, Facts
from swarm.language import SOURCE, Language, known
from swarm.run_file import MASK

TEMPLATE = Path(__file__).with_name("card.md.jinja")
Translate = Callable[[str], str]
MOST_NAMED = 2000  # contributors in the table; the page has to open


def card(facts: Facts) -> str:
    """The text of README.md in the run's language. Names, and what people wrote into the run file, become no markup.

    Raises:
        ValueError: figures that the Hub would not take.
    """
    run, record, language = facts.run, facts.record, Language(facts.run.language)
    made = ModelCard.from_template(
        metadata(facts),
        template_path=str(TEMPLATE),
        facts=facts,
        run=run,
        state=facts.state,
        plain=plain,
        quote=quote,
        HUB=HUB,
        repository=HUB + facts.repo,
        notebook=FILE_NAME,
        _=language.text,
        spoken=plain(Language(known(run.language) or SOURCE).name_of(run.language)),
        beginning=_beginning(facts, language.text),
        probe=_probe(facts),
        scores=list(_scores(facts, language.text)),
        contributors=list(_contributors(record.credit, language)) if record else [],
        cost=cost.cost_of(run, facts.vocabulary, record.tokens, record.hours) if record else None,
        assumed=cost,
    )
    return str(made).rstrip() + "\n"


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
        tags=[run.model.architecture, "collaborative-training", "hivemind", "sahaj"],
        base_model=base_model(run),
        datasets=datasets or None,
        model_name=facts.repo if results else None,
        eval_results=results or None,
        widget=probes or None,
    )


def _beginning(facts: Facts, _: Translate) -> str:
    run = facts.run
    if run.model.start_from is None:
        is_counted = run.model.embeddings == "counted" and not facts.state.random_embeddings
        return (
            _("random weights, with word vectors computed from counts in the training text")
            if is_counted
            else _("random weights")
        )
    name = base_model(run)
    if not name:
        return _("the weights of another model of the organizer")
    return _("the weights of {model}").format(model=f"[{name}]({HUB}{name})")


def _probe(facts: Facts) -> str:
    """A sentence with a mask, as a Python literal."""
    probes = [probe for probe in facts.run.coordinator.probes if "`" not in probe]  # it would end the block of code
    text = (probes[0] if probes else f"This is a {MASK}.").replace(MASK, facts.mask)
    return json.dumps(text, ensure_ascii=False)


def _scores(facts: Facts, _: Translate) -> Iterator[tuple[str, str]]:
    state = facts.state
    if state.eval_loss is not None:
        yield _("held-out loss of masked tokens, nats"), f"{state.eval_loss:.3f}"
    if state.unigram_loss is not None and state.below_unigram is not None:
        yield _("loss of guessing from word frequencies alone on the same tokens, nats"), f"{state.unigram_loss:.3f}"
        yield _("how far the model is below that, nats"), f"{state.below_unigram:.3f}"
    if state.perplexity is not None:
        yield _("perplexity of masked tokens"), f"{state.perplexity:,.2f}"
    if state.sentence_order_accuracy is not None:
        yield _("sentence order accuracy"), f"{state.sentence_order_accuracy:.1%}"


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


def _contributors(credit: Credit, language: Language) -> Iterator[tuple[str, float, float | None]]:
    """Who has contributed, their share of the samples, and their hours; the last row is of all who are not named."""
    named, more = credit.named[:MOST_NAMED], credit.named[MOST_NAMED:]
    for one in named:
        link = f"[{plain(one.user)}]({HUB}{quote(one.user, safe='')})"
        yield link if one.verified else plain(one.user), one.share, one.hours
    unnamed, share = credit.others + len(more), credit.others_share + sum(one.share for one in more)
    if unnamed:
        several = language.several
        if named:
            people = several("one more person", "{n} more people", unnamed)
        else:
            people = several("one person", "{n} people", unnamed)
        yield people.format(n=f"{unnamed:,}"), share, None
