"""What Alembic runs to upgrade a ledger, inside the transaction of the connection that it is given."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,  # SQLite's too: the connection says BEGIN itself, which the driver would not
)
with context.begin_transaction():
    context.run_migrations()
