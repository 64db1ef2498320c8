"""Questions to other programs over D-Bus, which Linux desktops have: one connection a bus, for one thread."""

import contextlib
import time
from typing import Any, Literal

from jeepney import DBusAddress, DBusErrorResponse, Properties, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.wrappers import unwrap_msg

PATIENCE = 0.5  # seconds for an answer, which takes less than a millisecond
RETRY_AFTER = 10.0  # seconds after a connection has failed


class NoAnswer(Exception):
    """There is no bus, nobody of that name on it, or it does not answer."""


class Bus:
    """The bus of the system, or that of the person's session."""

    def __init__(self, name: Literal["SYSTEM", "SESSION"]):
        self._name = name
        self._connection: DBusConnection | None = None
        self._retry_at = 0.0

    def call(self, address: DBusAddress, method: str, signature: str | None = None, body: tuple[Any, ...] = ()) -> Any:
        """The first value of the answer.

        Raises:
            NoAnswer: there is none.
        """
        return self._ask(new_method_call(address, method, signature, body))[0]

    def properties(self, address: DBusAddress) -> dict[str, Any]:
        """All properties of an interface of an object.

        Raises:
            NoAnswer: they are not known.
        """
        return {name: value for name, (_, value) in self._ask(Properties(address).get_all())[0].items()}

    def close(self) -> None:
        """Ask nothing more."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
        self._connection = None

    def _ask(self, message: Any) -> Any:
        if self._connection is None:
            self._connect()
        assert self._connection is not None
        try:
            return unwrap_msg(self._connection.send_and_get_reply(message, timeout=PATIENCE))
        except DBusErrorResponse as error:
            raise NoAnswer(str(error)) from None
        except Exception as error:  # whatever it is, the connection is of no use any more
            self.close()
            raise NoAnswer(repr(error)) from None

    def _connect(self) -> None:
        if time.monotonic() < self._retry_at:
            raise NoAnswer(f"no {self._name.lower()} bus a moment ago")
        try:
            self._connection = open_dbus_connection(self._name)
        except Exception as error:
            self._retry_at = time.monotonic() + RETRY_AFTER
            raise NoAnswer(repr(error)) from None
