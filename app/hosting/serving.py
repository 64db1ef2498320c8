"""A host in its swarm, from joining the DHT to leaving in order."""

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from hivemind.dht import DHT

from app.hosting.capacity import states_folder
from app.hosting.console import HostConsole
from app.join.admission import Admitted
from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.records import Directory
from experts.host.settings import ExpertSettings, HostLimits
from experts.remote.connection import Swarm
from experts.remote.hosting import Hosting, HostingTimes
from swarm.dht.liveness import DHTWatch
from swarm.dht.node import Network, join_dht
from swarm.language import _
from swarm.leaving import Asked, end_helpers, end_process, leaving_on_signal
from trainer.organizer_notices import OrganizerNotices
from trainer.precision import device_name
from trainer.session_publisher import SessionPublisher

LOOK_EVERY = 0.5  # seconds
TIMES = HostingTimes()
PATIENCE = 60.0  # seconds from the signal to the end; states of many experts take a while to write


def serve(
    admitted: Admitted,
    settings: ExpertSettings,
    capacity: int,
    network: Network,
    when_joined: Callable[[DHT], None],
    console: HostConsole,
) -> None:
    """Serve up to `capacity` experts until Ctrl-C, SIGTERM, a ban, or the end of the run.

    If the DHT ends or is silent for too long, that is said, and the process ends with the status of `SwarmError`.

    Args:
        when_joined: called once helper processes run and threads may start.

    Raises:
        SahajError: the swarm cannot be joined.
    """
    run, gate, identity = admitted.run, admitted.gate, admitted.identity
    # hivemind forks its processes: that has to come before threads of ours are running
    dht = join_dht(run.name, identity, network, gate)
    try:
        when_joined(dht)
        with leaving_on_signal(
            lambda: console.farewell(_("This host had to stop before all states were written; older ones are whole.")),
            patience=PATIENCE,
        ) as asked:
            watch = DHTWatch(dht, console.message, asked.fail)
            loop = LoopThread("experts")
            p2p = loop.call(join_daemon(dht))
            directory = Directory(dht, run.name, gate, settings.grid, settings.fingerprint)
            swarm = Swarm(p2p, identity, gate, admitted.answer.manifest.fingerprint, directory)
            assert run.experts is not None
            limits = HostLimits(arrive=max(HostLimits.arrive, run.experts.timeout))  # trainers wait for so long
            folder = states_folder(admitted.run_folder, gate.authority)
            hosting = loop.call(_begin(swarm, settings, capacity, folder, limits))
            device = f"host of experts, {device_name(torch.device('cpu'))}"
            publisher = SessionPublisher(run.name, identity, dht, device=device, gate=gate)
            session = secrets.token_hex(16)  # credited with the tokens that its experts serve
            publish = partial(publisher.publish, session, step=0, samples_per_second=0.0, data_wait_fraction=0.0)
            _follow(loop, hosting, OrganizerNotices(gate, identity), asked, console, publish)
            _leave(loop, hosting, console)
            watch.stop()
            if not asked.status:
                publisher.leave(session, step=0, data_wait_fraction=0.0)
                loop.call(p2p.shutdown())
                loop.stop()
                dht.shutdown()
            else:  # threads of hivemind may wait for the DHT that is gone
                end_process(asked.status)
    finally:
        end_helpers()


async def _begin(swarm: Swarm, settings: ExpertSettings, capacity: int, folder: Path, limits: HostLimits) -> Hosting:
    hosting = Hosting(swarm, settings, capacity, folder, limits, TIMES)
    await hosting.start()
    return hosting


def _follow(
    loop: LoopThread,
    hosting: Hosting,
    organizer: OrganizerNotices,
    asked: Asked,
    console: HostConsole,
    publish: Callable[[], None],
) -> None:
    """Show what the host does until it has to leave, and tell that it is there."""
    while not asked.wait(LOOK_EVERY) and not organizer.reason_to_leave():
        for message in organizer.new_lines():
            console.message(message)
        console.show(loop.call(hosting.report()))
        publish()
    if reason := organizer.reason_to_leave():
        console.message(reason)


def _leave(loop: LoopThread, hosting: Hosting, console: HostConsole) -> None:
    console.message(_("Leaving: states are written, and given to standbys for half a minute at most ..."))
    report = loop.call(hosting.report())
    lost = loop.call(hosting.stop())
    if lost:
        names = ", ".join(".".join(map(str, uid)) for uid in sorted(lost))
        told = _("problem: {problem}; steps since the last copy are lost: {names}")
        console.message(told.format(problem=loop.call(hosting.report()).problem, names=names))
    served = len(report.holdings.serves.keys() - set(lost))
    thanks = _(
        "Thank you! Your experts served {tokens} tokens of other people, in {calls} calls. The states of {n} experts "
        "are written."
    )
    console.farewell(thanks.format(tokens=f"{report.served:,}", calls=f"{report.answered:,}", n=served))
