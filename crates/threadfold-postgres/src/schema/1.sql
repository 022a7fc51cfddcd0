-- What belongs to the store as a whole.
CREATE TABLE threadfold.store (
    -- There is one row.
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    -- The version of these tables.
    version integer NOT NULL,
    -- A number above the epochs of all sessions that were removed. A new session goes on from there:
    -- no epoch is given out twice under one name, and a writer that slept over a removal is refused.
    removed_epoch bigint NOT NULL DEFAULT 0
);

INSERT INTO threadfold.store (version) VALUES (1);

CREATE TABLE threadfold.sessions (
    -- Never given to another session, also not after this one was removed.
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Bytes, because they sort as ids do in every locale, and because text cannot contain NUL.
    name bytea NOT NULL UNIQUE,
    log text NOT NULL,
    -- Times are milliseconds since 1970.
    created bigint NOT NULL,
    epoch bigint NOT NULL,
    -- The last record, and when it was received.
    head bigint NOT NULL DEFAULT 0,
    latest bigint,
    -- How much of the log is in the tail.
    tail_rows bigint NOT NULL DEFAULT 0,
    tail_bytes bigint NOT NULL DEFAULT 0,
    -- Who holds the lease, as JSON, and until when; nobody if NULL.
    holder text,
    lease_until bigint,
    summary_generation bigint,
    summary_seq bigint,
    summary text
) WITH (fillfactor = 70);

-- The end of every log: one row an append.
CREATE TABLE threadfold.tail (
    session bigint NOT NULL REFERENCES threadfold.sessions ON DELETE CASCADE,
    first bigint NOT NULL,
    count bigint NOT NULL,
    latest bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, first)
);

-- Content by its hash; compressed if `data` is shorter than `length`.
CREATE TABLE threadfold.blobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    length bigint NOT NULL,
    stored_at bigint NOT NULL,
    data bytea NOT NULL
);

-- What comes before the tail.
CREATE TABLE threadfold.groups (
    session bigint NOT NULL REFERENCES threadfold.sessions ON DELETE CASCADE,
    first bigint NOT NULL,
    count bigint NOT NULL,
    latest bigint NOT NULL,
    meta bytea NOT NULL,
    blob bigint NOT NULL REFERENCES threadfold.blobs,
    PRIMARY KEY (session, first)
);
CREATE INDEX ON threadfold.groups (blob);

-- What sessions keep, besides the content of their groups and snapshots.
CREATE TABLE threadfold.blob_refs (
    session bigint NOT NULL REFERENCES threadfold.sessions ON DELETE CASCADE,
    blob bigint NOT NULL REFERENCES threadfold.blobs,
    PRIMARY KEY (session, blob)
);
CREATE INDEX ON threadfold.blob_refs (blob);

CREATE TABLE threadfold.snapshots (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL REFERENCES threadfold.sessions ON DELETE CASCADE,
    generation bigint NOT NULL,
    seq bigint NOT NULL,
    -- The hash of the names of its pieces, in their order.
    manifest bytea NOT NULL,
    UNIQUE (session, generation, seq)
);

CREATE TABLE threadfold.snapshot_chunks (
    snapshot bigint NOT NULL REFERENCES threadfold.snapshots ON DELETE CASCADE,
    number bigint NOT NULL,
    blob bigint NOT NULL REFERENCES threadfold.blobs,
    PRIMARY KEY (snapshot, number)
);
CREATE INDEX ON threadfold.snapshot_chunks (blob);

-- The rows are compressed already, and PostgreSQL must not try again.
ALTER TABLE threadfold.tail ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE threadfold.blobs ALTER COLUMN data SET STORAGE EXTERNAL;

-- The store's clock: the database's own, unless a test brings one.
CREATE FUNCTION threadfold.now_or(given bigint) RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) $$;
