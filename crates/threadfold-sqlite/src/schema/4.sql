-- Tickets that were not used yet, by their hash, and when they expire.
CREATE TABLE tickets (
    hash BLOB NOT NULL PRIMARY KEY,
    expires INTEGER NOT NULL
) WITHOUT ROWID;
