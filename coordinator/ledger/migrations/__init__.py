"""How the ledger's tables became what they are, one step for each change; Alembic takes them in order.

A ledger is brought up to date when it is opened (`coordinator/ledger/upgrade.py`). Whoever changes the tables in
`coordinator/ledger/schema.py` adds a file to `versions/` whose `down_revision` is the newest one so far. It must not
import the tables: it tells of them as they were then. All steps that a ledger lacks are taken in one transaction.
Nothing leads back: keep a copy of the ledger to go back to an older Sahaj.
"""
