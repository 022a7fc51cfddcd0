CREATE TABLE sessions (
    -- Never given to another session, also not after this one was removed.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    log TEXT NOT NULL,
    created INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    -- Who holds the lease, as JSON, and until when; nobody if NULL.
    holder TEXT,
    lease_until INTEGER,
    summary_generation INTEGER,
    summary_seq INTEGER,
    summary TEXT
);

-- The end of every log: one row an append, and nothing else is written for it.
-- `place` is the session and the first record; see `schema::place`.
CREATE TABLE tail (
    place INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    data BLOB NOT NULL
);

-- Appends to many sessions at once, together: what comes after the tail of each.
CREATE TABLE bursts (
    id INTEGER PRIMARY KEY,
    directory BLOB NOT NULL,
    data BLOB NOT NULL
);

-- What comes before the tail.
CREATE TABLE groups (
    place INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    meta BLOB NOT NULL,
    blob INTEGER NOT NULL
);

-- Content by its hash; compressed if `data` is shorter than `length`.
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    length INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    data BLOB NOT NULL
);

-- What sessions keep, besides the content of their groups and snapshots.
CREATE TABLE blob_refs (
    session INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (session, blob)
) WITHOUT ROWID;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- The hash of the names of its pieces, in their order.
    manifest BLOB NOT NULL,
    UNIQUE (session, generation, seq)
);

CREATE TABLE snapshot_chunks (
    snapshot INTEGER NOT NULL,
    number INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (snapshot, number)
) WITHOUT ROWID;
