"""Restores the newest checkpoint from the Hub when the disk is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

from coordinator.checkpoints.checkpoint import Checkpoint, TrainerState, newest_checkpoint
from coordinator.checkpoints.checksums import SUMS, check_sums, read_sums
from coordinator.release.hub import HubRepository, ReleaseError
from coordinator.release.publish import check_owner
from coordinator.state_folder import CHECKPOINTS, DOWNLOADS, RANDOM
from swarm.files import whole_directory, write_file
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint


def restore_from_hub(run: RunFile, folder: Path, ours: Fingerprint, say: Callable[[str], None], *, asked: bool) -> None:
    """Download the newest release into a state folder, if it is newer than the checkpoints there.

    Unless `asked` (`--from-hub`) this happens only where there is no checkpoint at all. Checkpoints on the disk stay,
    and are preferred to a release of the same global step.

    Raises:
        ReleaseError: it was asked for and there is none, or it is not of this run.
        ReleaseError, StorageError: the download failed, or is not what was released.
    """
    here = newest_checkpoint(folder / CHECKPOINTS)
    if run.release is None or (here is not None and not asked):
        if asked:
            raise ReleaseError("--from-hub: the run file names no repository; set release.repo in it")
        return
    repository = HubRepository(run.release.repo)
    try:
        head = repository.head()
        state = head.state if head is not None else None
        check_owner(repository.name, state, run.name, ours.digest)
    except ReleaseError as error:
        if asked:
            raise
        say(f"attention: the Hub's release is not used ({error}); to use it, stop and start with --from-hub")
        return
    if head is None or state is None:
        if asked:
            raise ReleaseError(f"{repository.name}: there is no release to go on from, or the token may not see it")
        return
    if here is not None and here.step >= state.step:
        say(f"The newest state is here: global step {here.step}. {repository.name} has global step {state.step}.")
        return
    say(f"Fetching global step {state.step} from {repository.url}")
    restored = _fetch(repository, head.commit, state, folder)
    say(f"Going on from {repository.name}: {restored.path}")


def _fetch(repository: HubRepository, commit: str, state: TrainerState, folder: Path) -> Checkpoint:
    """Download, compare with the checksums, and only then give it its name. An interrupted download is resumed."""
    downloads = folder / DOWNLOADS / commit
    try:
        repository.download(downloads, commit, [SUMS])
        names = [*read_sums(downloads), SUMS]
        repository.download(downloads, commit, names)
        check_sums(downloads)
    except (OSError, ValueError) as error:
        shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)  # or a damaged file would be used the next time
        raise ReleaseError(
            f"{repository.name}: what was fetched of global step {state.step} is damaged ({error}); start again"
        ) from error
    path = folder / CHECKPOINTS / f"checkpoint-{state.step}"
    with whole_directory(path) as partial:
        for name in names:
            (downloads / name).replace(partial / name)
    if state.random_embeddings:
        write_file(folder / RANDOM, "")
    shutil.rmtree(folder / DOWNLOADS, ignore_errors=True)
    return Checkpoint(path, state.step, state)
