"""Migrations of the ledger's tables, one for each change; Alembic runs them in order.

A ledger is brought up to date when it is opened (`coordinator/ledger/storage/upgrade.py`). To change the tables in
`coordinator/ledger/tables.py`, add a file to `versions/` whose `down_revision` is the newest one so far. It must not
import the tables: it describes them as they were then. All steps that a ledger lacks are taken in one transaction.
Nothing leads back: keep a copy of the ledger to go back to an older Sahaj.
"""
