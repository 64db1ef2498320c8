CREATE TABLE days (
    day DATE NOT NULL,
    user_name VARCHAR NOT NULL,
    samples BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    tokens_served BIGINT NOT NULL,
    PRIMARY KEY (day, user_name)
);
CREATE INDEX ix_days_user_name ON days (user_name);
CREATE TABLE evaluations (
    step BIGINT NOT NULL,
    loss DOUBLE PRECISION NOT NULL,
    sentence_order_loss DOUBLE PRECISION,
    samples BIGINT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    sentence_order_accuracy DOUBLE PRECISION,
    unigram_loss DOUBLE PRECISION,
    loss_with_experts DOUBLE PRECISION,
    PRIMARY KEY (step)
);
CREATE TABLE fills (
    step BIGINT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    sentences JSON NOT NULL,
    PRIMARY KEY (step)
);
CREATE TABLE flags (
    peer_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    user_name VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    what VARCHAR NOT NULL,
    times BIGINT NOT NULL,
    first DOUBLE PRECISION NOT NULL,
    last DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (peer_id, kind)
);
CREATE TABLE headers (
    digest VARCHAR(64) NOT NULL,
    PRIMARY KEY (digest)
);
CREATE TABLE ledger_version (
    number BIGINT NOT NULL,
    PRIMARY KEY (number)
);
CREATE TABLE minutes (
    time BIGINT NOT NULL,
    sessions BIGINT NOT NULL,
    users BIGINT NOT NULL,
    samples_per_second DOUBLE PRECISION NOT NULL,
    data_wait_fraction DOUBLE PRECISION NOT NULL,
    averaging_seconds DOUBLE PRECISION,
    users_ever BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    averaging_rounds BIGINT NOT NULL,
    averaging_failures BIGINT NOT NULL,
    PRIMARY KEY (time)
);
CREATE TABLE place (
    id BIGINT NOT NULL,
    start BIGINT NOT NULL,
    digest VARCHAR(64) NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE rounds (
    step BIGINT NOT NULL,
    gradient_norm DOUBLE PRECISION NOT NULL,
    seconds DOUBLE PRECISION,
    PRIMARY KEY (step)
);
CREATE TABLE served (
    session_id VARCHAR(32) NOT NULL,
    host VARCHAR NOT NULL,
    told BIGINT NOT NULL,
    counted BIGINT NOT NULL,
    PRIMARY KEY (session_id, host)
);
CREATE TABLE sessions (
    session_id VARCHAR(32) NOT NULL,
    user_name VARCHAR NOT NULL,
    peer_id VARCHAR NOT NULL,
    client_mode BOOLEAN NOT NULL,
    device VARCHAR NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    last_seen DOUBLE PRECISION NOT NULL,
    step BIGINT NOT NULL,
    samples_per_second DOUBLE PRECISION NOT NULL,
    averaging_rounds BIGINT NOT NULL,
    averaging_failures BIGINT NOT NULL,
    data_wait_fraction DOUBLE PRECISION NOT NULL,
    has_left BOOLEAN NOT NULL,
    samples BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    heard DOUBLE PRECISION NOT NULL,
    country VARCHAR(2),
    hosts_experts BOOLEAN NOT NULL,
    tokens_served BIGINT NOT NULL,
    pause VARCHAR(20),
    PRIMARY KEY (session_id)
);
CREATE INDEX ix_sessions_peer_id ON sessions (peer_id);
CREATE INDEX ix_sessions_user_name ON sessions (user_name);
CREATE TABLE steps (
    step BIGINT NOT NULL,
    samples BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    peers BIGINT NOT NULL,
    loss_sum DOUBLE PRECISION NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (step)
);
CREATE INDEX ix_steps_time ON steps (time);
CREATE TABLE team_days (
    day DATE NOT NULL,
    team_id VARCHAR(16) NOT NULL,
    samples BIGINT NOT NULL,
    tokens_served BIGINT NOT NULL,
    PRIMARY KEY (day, team_id)
);
CREATE INDEX ix_team_days_team_id ON team_days (team_id);
CREATE TABLE team_members (
    team_id VARCHAR(16) NOT NULL,
    user_name VARCHAR NOT NULL,
    is_member BOOLEAN NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    samples BIGINT NOT NULL,
    tokens_served BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_name)
);
CREATE UNIQUE INDEX one_team_each ON team_members (user_name) WHERE is_member;
CREATE TABLE teams (
    team_id VARCHAR(16) NOT NULL,
    name VARCHAR NOT NULL,
    folded VARCHAR NOT NULL,
    creator VARCHAR NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (team_id),
    UNIQUE (folded)
);
INSERT INTO ledger_version (number) VALUES (0)
