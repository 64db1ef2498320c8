"""What this machine is doing, as far as the wishes ask for it: its battery, its connection, and who uses it."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import psutil
from jeepney import DBusAddress

from swarm.language import _
from trainer.pausing.bus import Bus, NoAnswer
from trainer.pausing.daily_traffic import DailyTraffic
from trainer.pausing.decision import Facts
from trainer.pausing.idleness import idleness_of_this_machine
from trainer.pausing.wishes import WishError, Wishes

logger = logging.getLogger(__name__)

NETWORK_MANAGER = DBusAddress(
    "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager", "org.freedesktop.NetworkManager"
)
SUPPLIES = Path("/sys/class/power_supply")
METERED = (1, 3)  # NMMetered: yes, and "probably", as of a telephone's connection


class Machine:
    """Reads the facts.

    Args:
        traffic: of today, if there is a limit for it.
        order: a file that is there while the volunteer wants a pause (`--pause-file`).
        on_page: whether they have ordered one on their page.
    """

    def __init__(
        self,
        wishes: Wishes,
        traffic: DailyTraffic | None = None,
        order: Path | None = None,
        on_page: Callable[[], bool] = lambda: False,
        *,
        idleness: Callable[[], float | None] | None = None,
    ):
        self._wishes, self._on_page, self._traffic = wishes, on_page, traffic
        # not by `Path`, which raises in a folder of another user; no shell fills in the ~ of --pause-file=~/pause
        self._order = None if order is None else os.path.expanduser(order)  # noqa: PTH111
        self._idleness = idleness or idleness_of_this_machine()
        self._system = Bus("SYSTEM")

    def facts(self) -> Facts:
        """As they are now."""
        wishes = self._wishes
        return Facts(
            idle=self._idleness() if wishes.when.asks_for_idle else None,
            on_battery=not wishes.on_battery and on_battery(),
            is_metered=not wishes.on_metered and self._is_metered(),
            traffic=0.0 if self._traffic is None else self._traffic.today,
            is_ordered=self._order is not None and os.path.exists(self._order),  # noqa: PTH110
            is_paused_on_page=self._on_page(),
        )

    def check(self) -> None:
        """See that this machine tells what the wishes ask for.

        Raises:
            WishError: it does not.
        """
        if self._wishes.when.asks_for_idle and self._idleness() is None:
            raise WishError(
                _(
                    "--when {written}: this machine does not tell whether somebody uses it; name hours instead, such "
                    "as --when night"
                ).format(written=self._wishes.when.written)
            )

    def _is_metered(self) -> bool:
        try:
            return self._system.properties(NETWORK_MANAGER).get("Metered") in METERED
        except NoAnswer as error:
            logger.debug("whether the connection is metered cannot be told: %s", error)
            return False


def on_battery() -> bool:
    """Whether the machine has a battery, and it is in use."""
    if psutil.LINUX:  # psutil takes the battery of a wireless mouse for the machine's
        return _is_discharged(SUPPLIES)
    try:
        battery = psutil.sensors_battery()
    except Exception as error:
        logger.debug("the battery cannot be read: %r", error)
        return False
    return battery is not None and battery.power_plugged is False


def _is_discharged(supplies: Path) -> bool:
    """Whether a battery gives power and no charger does, by what the kernel shows in a folder for each of them."""
    discharging = False
    for folder in supplies.glob("*"):
        if _read(folder / "scope") == "Device":  # of a mouse, a gamepad
            continue
        if _read(folder / "type") == "Battery":
            discharging = discharging or _read(folder / "status") == "Discharging"
        elif _read(folder / "online") == "1":
            return False
    return discharging


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
