"""A ledger as Sahaj wrote it before there were migrations: its tables, and contributions of two users."""

from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from coordinator.ledger import StepSummary

TABLES = """
CREATE TABLE evaluations (step BIGINT NOT NULL, loss DOUBLE PRECISION NOT NULL,
  sentence_order_loss DOUBLE PRECISION NOT NULL, samples BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (step));
CREATE TABLE schema_version (version BIGINT NOT NULL, PRIMARY KEY (version));
CREATE TABLE sessions (session_id VARCHAR(32) NOT NULL, user_name VARCHAR NOT NULL, peer_id VARCHAR NOT NULL,
  client_mode BOOLEAN NOT NULL, device VARCHAR NOT NULL, started DOUBLE PRECISION NOT NULL,
  last_seen DOUBLE PRECISION NOT NULL, step BIGINT NOT NULL, samples_per_second DOUBLE PRECISION NOT NULL,
  averaging_rounds BIGINT NOT NULL, averaging_failures BIGINT NOT NULL, data_wait_fraction DOUBLE PRECISION NOT NULL,
  has_left BOOLEAN NOT NULL, PRIMARY KEY (session_id));
CREATE INDEX ix_sessions_user_name ON sessions (user_name);
CREATE TABLE contributions (session_id VARCHAR(32) NOT NULL, step BIGINT NOT NULL, samples BIGINT NOT NULL,
  tokens BIGINT NOT NULL, loss DOUBLE PRECISION NOT NULL, PRIMARY KEY (session_id, step),
  FOREIGN KEY(session_id) REFERENCES sessions (session_id)){without_rowid};
CREATE INDEX ix_contributions_step ON contributions (step);
INSERT INTO evaluations VALUES (2, 9.25, 0.69, 64, 1000.0);
INSERT INTO schema_version VALUES (1)
"""
SESSION = "INSERT INTO sessions VALUES ('{id}', '{user}', 'peer-{letter}', FALSE, '2 cores', {started}, {last_seen}, "
SESSION += "{steps}, 10.0, 3, 0, 0.0, FALSE)"
CONTRIBUTION = "INSERT INTO contributions VALUES (:session, :step, :samples, :tokens, :loss)"

STEPS = 900  # in each of which a brings 30 samples of loss 8, and in every second b brings 10 of loss 4
EXPECTED = [
    StepSummary(step, 40, 40 * 128, 2, 7.0) if step % 2 else StepSummary(step, 30, 30 * 128, 1, 8.0)
    for step in range(STEPS)
]
A_SAMPLES, B_SAMPLES = 30 * STEPS, 10 * STEPS // 2


def write_first_ledger(url: str, folder: Path) -> str:
    """Fill the empty database; returns its whole URL."""
    if url.startswith("sqlite"):
        url = f"sqlite:///{folder / str(make_url(url).database)}"
    without_rowid = " WITHOUT ROWID" if url.startswith("sqlite") else ""
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in TABLES.format(without_rowid=without_rowid).split(";"):
            connection.execute(text(statement))
        for letter, user, last_seen in (("a", "asha", 4600.0), ("b", "bo", 2.0**39)):
            words = {"id": letter * 32, "letter": letter, "user": user, "steps": STEPS}
            connection.execute(text(SESSION.format(started=1000.0, last_seen=last_seen, **words)))
        rows = [("a", step, 30, 8.0) for step in range(STEPS)] + [("b", step, 10, 4.0) for step in range(1, STEPS, 2)]
        connection.execute(
            text(CONTRIBUTION),
            [
                {"session": letter * 32, "step": step, "samples": samples, "tokens": 128 * samples, "loss": loss}
                for letter, step, samples, loss in rows
            ],
        )
    engine.dispose()
    return url
