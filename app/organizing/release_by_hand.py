"""What `sahaj release` does: it makes a release of a checkpoint and its ledger, and shows or publishes it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.join.address import coordinator_url
from app.join.problems import JoinProblem, ProblemKind
from app.organizing.info import readable
from app.startup import INTERRUPTED
from coordinator.checkpoints.checkpoint import RUN, Checkpoint, check
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.storage.database import folder_of
from coordinator.notebook.build import invitation, link_for_others
from coordinator.release.build import make_release
from coordinator.release.facts import Record, read_record, read_unnamed, unknown_names
from coordinator.release.hub import HubRepository, check_name
from coordinator.release.publish import CARD, Release, publish
from coordinator.state_folder import LEDGER, URL
from swarm.errors import SahajError
from swarm.run_file import RunFile, load_run


class Stopped(SahajError):
    """Ctrl-C came before all was done."""

    exit_status = INTERRUPTED


def release_by_hand(
    path: Path,
    repo: str,
    tags: list[str],
    ledger: str | None,
    link: str | None = None,
    say: Callable[[str], None] = print,
) -> Release:
    """The release of a checkpoint; its card has the contributors and the curve if there is a ledger.

    Until the run is over the release holds the notebook, with the given link or the one that the coordinator has saved.

    Raises:
        SahajError: the checkpoint is broken, the repository has no valid name, the link works on this machine only,
            or the ledger cannot be read.
    """
    check_name(repo)
    path = path.absolute()
    state = check(path)
    run = load_run(path / RUN)
    folder = path.parent.parent
    joins = state.step < run.optimizer.total_steps
    also = invitation(run.name, _link_of(folder, link), run.language) if joins else {}
    record = _record_of(run, folder, ledger, say)
    return make_release(run, Checkpoint(path, state.step, state), repo, record=record, also=also, tags=tags)


def publish_by_hand(release: Release, repo: str, *, private: bool) -> str:
    """Write it to the Hub; returns what was done, for people.

    Raises:
        NotAllowed, ReleaseError, Stopped: the message says whether it is released, as far as that is known.
    """
    repository, commit = HubRepository(repo, private=private), ""
    try:
        repository.open()
        commit = publish(repository, replace(release, tags=()), once=False)
        for tag in release.tags:
            repository.tag(tag, commit)
        named = repository.tags()
    except KeyboardInterrupt:
        nothing = (
            f"nothing is visible at {repository.url}, unless the commit was on its way just then; what was uploaded is "
            "not sent again"
        )
        raise Stopped(f"stopped; {_released(commit) if commit else nothing}") from None
    except SahajError as error:
        if commit:
            error.args = (f"{error}; {_released(commit)}",)
        raise
    elsewhere = [
        f"\nattention: the tag {tag} is at another commit ({named[tag][:8]}) and stays there; delete it on the Hub, or "
        "give another --tag"
        for tag in release.tags
        if named.get(tag, commit) != commit
    ]
    return f"Released at {repository.url} ({commit[:8]})" + "".join(elsewhere)


def describe(release: Release, repo: str) -> str:
    """What would go to the Hub: the message, files with their sizes, and the card."""
    sizes = {name: release.size(name) for name in release.files}
    width = max(map(len, sizes))
    card = release.files[CARD]
    assert isinstance(card, bytes), "the card was made here"
    tags = f"\nTags: {', '.join(release.tags)}" if release.tags else ""
    return "\n".join(
        [
            f"Would go to {repo}, {readable(sum(sizes.values()))}; the Hub was not contacted.",
            f"\nMessage: {release.message}{tags}\n",
            *(f"  {name:<{width}}  {readable(size):>9}" for name, size in sizes.items()),
            f"\n{CARD}:\n\n{card.decode()}",
        ]
    )


def _released(commit: str) -> str:
    return f"released ({commit[:8]}); tags may be missing: set them on the Hub"


def _link_of(state_folder: Path, given: str | None) -> str:
    if given is not None:
        link = coordinator_url(given)
        if not link_for_others(link):
            raise JoinProblem(
                ProblemKind.BAD_URL, f"--link {link}: works on this machine only; give the address that others use"
            )
        return link
    try:
        return (state_folder / URL).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _record_of(run: RunFile, state_folder: Path, url: str | None, say: Callable[[str], None]) -> Record | None:
    if url is None and not (state_folder / LEDGER).is_file():
        say(f"attention: no ledger here ({state_folder / LEDGER}): without --ledger the card has no contributors")
        return None
    url = url or run.coordinator.ledger
    folders = {state_folder, folder_of(url, state_folder)}  # a copied checkpoint has no state folder around it
    unnamed = read_unnamed(*folders)
    ledger = open_ledger(url, state_folder)
    try:
        record = read_record(ledger, run, unnamed)
    finally:
        ledger.close()
    if unknown := record.credit.unknown:
        say(unknown_names(unknown))
    return record
