"""Brings the tables of a ledger of any older Sahaj up to date with Alembic, by the steps in `migrations/`."""

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

VERSION_TABLE = "ledger_version"  # Alembic's usual name may belong to another program in the same database
_STEPS = Path(__file__).parents[1] / "migrations"
_one_at_a_time = threading.Lock()  # while a migration runs, Alembic keeps its context in global variables


class NewerLedger(Exception):
    """The ledger has seen a step that this program does not know; the message says which versions."""


def is_up_to_date(connection: Connection) -> bool:
    """Whether nothing is to be done.

    Raises:
        NewerLedger: a newer Sahaj wrote it.
    """
    found = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    steps = ScriptDirectory(str(_STEPS))
    newest = steps.get_current_head()
    if found is not None and found not in {step.revision for step in steps.walk_revisions()}:
        raise NewerLedger(f"schema {found:.64}, this one knows {newest}")
    return found == newest


def upgrade(connection: Connection) -> None:
    """Take all steps that the ledger lacks, in the transaction that the connection is in.

    Raises:
        NewerLedger: a newer Sahaj wrote it.
    """
    if is_up_to_date(connection):
        return
    config = Config()
    config.set_main_option("script_location", str(_STEPS).replace("%", "%%"))  # it would interpolate
    config.attributes |= {"connection": connection, "version_table": VERSION_TABLE}
    with _one_at_a_time:
        command.upgrade(config, "head")
