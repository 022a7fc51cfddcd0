-- Tickets that were not used yet, by their hash, and when they expire.
CREATE TABLE threadfold.tickets (
    hash bytea PRIMARY KEY,
    expires bigint NOT NULL
);
