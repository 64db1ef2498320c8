"""What `sahaj release` does: put a release together from a checkpoint and its ledger, and show or publish it."""

from pathlib import Path

from app.info import readable
from coordinator.checkpoint_folder import RUN, Checkpoint, check
from coordinator.ledger import open_ledger
from coordinator.notebook import invitation
from coordinator.release import CARD, Release, publish
from coordinator.release_facts import Record, read_record
from coordinator.release_hub import HubRepository, check_name
from coordinator.release_making import make_release
from coordinator.state_folder import AUTHORITY, LEDGER
from swarm.run_file import RunFile, load_run


def release_by_hand(path: Path, repo: str, tags: list[str], ledger: str | None) -> Release:
    """The release of a checkpoint; contributors and the curve are in its card if there is a ledger.

    Raises:
        SahajError: the checkpoint is broken, the repository's name is not one, or the ledger cannot be read.
    """
    check_name(repo)
    path = path.absolute()
    state = check(path)
    run = load_run(path / RUN)
    record = _record_of(run, path.parent.parent, ledger)
    return make_release(run, Checkpoint(path, state.step, state), repo, record=record, also=invitation(run), tags=tags)


def publish_by_hand(release: Release, repo: str, *, private: bool) -> str:
    """Write it to the Hub; returns what was done, for people.

    Raises:
        NotAllowed, ReleaseError: nobody sees anything of it.
    """
    repository = HubRepository(repo, private=private)
    repository.open()
    commit = publish(repository, release, once=False)
    named = repository.tags()
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
            f"Would go to {repo}, {readable(sum(sizes.values()))}; nobody was contacted.",
            f"\nMessage: {release.message}{tags}\n",
            *(f"  {name:<{width}}  {readable(size):>9}" for name, size in sizes.items()),
            f"\n{CARD}:\n\n{card.decode()}",
        ]
    )


def _record_of(run: RunFile, state_folder: Path, url: str | None) -> Record | None:
    if url is None and not (state_folder / LEDGER).is_file():
        return None
    ledger = open_ledger(url or run.coordinator.ledger, state_folder)
    try:
        return read_record(ledger, run, state_folder, has_passes=(state_folder / AUTHORITY).is_file())
    finally:
        ledger.close()
