/** Schema version 1. PRIVATE to migrations.ts: once released, this text never changes; a change is the next number. */
export const initial = `
-- Handed out in blocks (positions.ts): one counter gives segments their ids and events their place in the store's one order.
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('position', 0), ('ping', 0);

-- A log: the first base_length events of base, then own events from seq base_length on.
-- owned: a session stands for it. Not owned: only forks keep it, and nobody reads it directly.
CREATE TABLE segments (
  id INTEGER PRIMARY KEY,
  base INTEGER,
  base_length INTEGER NOT NULL,
  completed_length INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  owned INTEGER NOT NULL
) STRICT;
CREATE INDEX segments_base ON segments (base, base_length) WHERE base IS NOT NULL;

-- Segments that sweep has to look at: their owner, or a fork that held them, is gone.
CREATE TABLE garbage (segment INTEGER PRIMARY KEY) STRICT;

CREATE TABLE events (
  segment INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  type TEXT NOT NULL,
  time INTEGER NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (segment, seq)
) STRICT, WITHOUT ROWID;

-- label and model are JSON texts, as every column that holds a caller's free text: JSON escapes what UTF-8 cannot say.
-- end_seq: where the run's own events end, once it is settled.
CREATE TABLE runs (
  n INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  session TEXT NOT NULL,
  segment INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  end_seq INTEGER,
  continues TEXT,
  provider TEXT NOT NULL,
  label TEXT,
  status TEXT NOT NULL,
  stop_reason TEXT,
  depth INTEGER NOT NULL,
  parent_run TEXT,
  parent_session TEXT,
  root TEXT NOT NULL,
  seed_turns INTEGER NOT NULL,
  seed_events INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  settled_at INTEGER,
  expires_at INTEGER,
  usage TEXT NOT NULL,
  model TEXT NOT NULL,
  metadata TEXT NOT NULL,
  cancel TEXT,
  error TEXT,
  notices TEXT NOT NULL,
  pending TEXT NOT NULL,
  result TEXT
) STRICT;
CREATE UNIQUE INDEX runs_id ON runs (tenant, id);
CREATE INDEX runs_newest ON runs (tenant, created_at, id);
CREATE INDEX runs_open ON runs (tenant) WHERE status <> 'settled';
CREATE INDEX runs_parent ON runs (tenant, parent_run) WHERE parent_run IS NOT NULL;
CREATE INDEX runs_parent_session ON runs (tenant, parent_session) WHERE parent_session IS NOT NULL;
CREATE INDEX runs_root ON runs (tenant, root, id) WHERE root <> id;
CREATE INDEX runs_session ON runs (tenant, session) WHERE continues IS NOT NULL;
CREATE INDEX runs_expiry ON runs (expires_at) WHERE expires_at IS NOT NULL;

-- Beside the row, so that a change of status does not write the prompt again.
CREATE TABLE specs (run INTEGER PRIMARY KEY, spec TEXT NOT NULL) STRICT;

-- length, tail, model, format: of registered sessions only.
CREATE TABLE sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  segment INTEGER NOT NULL,
  header TEXT NOT NULL,
  registered INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  length INTEGER NOT NULL,
  model TEXT,
  format TEXT,
  metadata TEXT NOT NULL,
  tail TEXT NOT NULL,
  losses TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_touched ON sessions (touched_at) WHERE registered = 1;

-- expires_at NULL: kept as long as the run it names.
CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  route TEXT NOT NULL,
  key TEXT NOT NULL,
  body_hash TEXT NOT NULL,
  subject TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_run ON idempotency (tenant, subject) WHERE expires_at IS NULL;
CREATE INDEX idempotency_expiry ON idempotency (expires_at) WHERE expires_at IS NOT NULL;
`
