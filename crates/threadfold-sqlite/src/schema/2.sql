-- A number above the epochs of all sessions that were removed. Who begins goes on from there: no
-- epoch is given out twice under one name, and a writer that slept over a removal is refused.
CREATE TABLE removed (
    epoch INTEGER NOT NULL
);

INSERT INTO removed VALUES (0);
