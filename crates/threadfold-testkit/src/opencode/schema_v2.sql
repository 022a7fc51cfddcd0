-- The tables of OpenCode 2.0 that are read. `event_sequence` is that of version 1.
CREATE TABLE IF NOT EXISTS session_v2 (
  id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text,
  fork_session_id text, fork_boundary text, slug text NOT NULL, directory text NOT NULL, path text,
  title text, version text NOT NULL, share_url text, summary_additions integer,
  summary_deletions integer, summary_files integer, summary_diffs text, metadata text,
  cost real DEFAULT 0, tokens_input integer, tokens_output integer, tokens_reasoning integer,
  tokens_cache_read integer, tokens_cache_write integer, revert text, permission text, agent text,
  model text, time_created integer NOT NULL, time_updated integer NOT NULL, time_idle integer,
  time_viewed integer, idle_outcome text, time_compacting integer, time_archived integer,
  time_suspended integer, resume_attempts integer
);
CREATE TABLE IF NOT EXISTS session_message (
  id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS session_message_session_seq_idx
  ON session_message (session_id, seq);
CREATE INDEX IF NOT EXISTS session_message_session_type_seq_idx
  ON session_message (session_id, type, seq);
CREATE TABLE IF NOT EXISTS session_inbox (
  id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, payload text NOT NULL,
  delivery text NOT NULL, enqueued_seq integer NOT NULL, time_created integer NOT NULL
);
