-- The kernel's journal (DESIGN 10). Record tables are append-only; `action` and
-- `reservation` are projections that `journal rebuild` makes again from the records.
-- `lineage` in these tables is the row number of the lineage's root action: a short
-- name for it that keeps its records together. It never means order. `parent` is the
-- same number at an action that is not the root, NULL at the root.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE action (
    number      INTEGER PRIMARY KEY,
    parent      INTEGER,
    action_id   TEXT NOT NULL UNIQUE,
    root_id     TEXT NOT NULL,
    position    INTEGER NOT NULL,
    head        TEXT NOT NULL,
    type        TEXT NOT NULL,
    contract    TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    finding     TEXT NOT NULL,
    level       INTEGER NOT NULL,
    compensation TEXT NOT NULL,
    decision    TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    holder      TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    next_at     INTEGER NOT NULL,
    open        INTEGER NOT NULL
);

-- Recovery finds what is open here, and never reads history.
CREATE INDEX action_open ON action (next_at) WHERE open = 1;
CREATE INDEX action_parent ON action (parent) WHERE parent IS NOT NULL;

-- One integer is lineage and position, so that a lineage's records lie together and
-- a new lineage is appended at the end: number = lineage * 2^20 + position.
CREATE TABLE record (
    number   INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    lineage  INTEGER GENERATED ALWAYS AS (number >> 20) VIRTUAL,
    position INTEGER GENERATED ALWAYS AS (number & 1048575) VIRTUAL
);

CREATE TABLE reservation (
    decision_id TEXT NOT NULL,
    action_id   TEXT NOT NULL,
    PRIMARY KEY (decision_id, action_id)
) WITHOUT ROWID;

-- What waits to be delivered; a row goes when it has been.
CREATE TABLE outbox (
    number    INTEGER PRIMARY KEY,
    lineage   INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    topic     TEXT NOT NULL,
    body      TEXT NOT NULL
);

CREATE TABLE contract (
    digest TEXT PRIMARY KEY,
    body   BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE certificate (
    digest   TEXT PRIMARY KEY,
    lineage  INTEGER NOT NULL,
    action_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    form     TEXT NOT NULL,
    body     BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX certificate_action ON certificate (action_id, position);

CREATE TRIGGER record_kept_update BEFORE UPDATE ON record
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_kept_delete BEFORE DELETE ON record
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_kept_replace BEFORE INSERT ON record
WHEN EXISTS (SELECT 1 FROM record WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'position taken'); END;

CREATE TRIGGER contract_kept_update BEFORE UPDATE ON contract
BEGIN SELECT RAISE(ABORT, 'contracts are append-only'); END;
CREATE TRIGGER contract_kept_delete BEFORE DELETE ON contract
BEGIN SELECT RAISE(ABORT, 'contracts are append-only'); END;
CREATE TRIGGER certificate_kept_update BEFORE UPDATE ON certificate
BEGIN SELECT RAISE(ABORT, 'certificates are append-only'); END;
CREATE TRIGGER certificate_kept_delete BEFORE DELETE ON certificate
BEGIN SELECT RAISE(ABORT, 'certificates are append-only'); END;
