-- From here on rows of the tail and of bursts may be compressed, which earlier versions cannot read.
-- The table of bursts has another name, so that a process of an earlier version that has the store
-- open cannot move compressed rows as if they were plain ones.
ALTER TABLE bursts RENAME TO packed_bursts;
