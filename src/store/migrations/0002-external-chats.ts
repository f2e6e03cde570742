/** Schema version 2: chats with external CLIs. PRIVATE to migrations.ts: once released, this text never changes. */
export const externalChats = `
ALTER TABLE runs ADD COLUMN external TEXT;

-- The journal of a chat: lines as they came, joined with line breaks, the first one's number in front. A run's journal is named
-- by where its log begins, which no other run's does, before or after.
CREATE TABLE frames (
  segment INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  line INTEGER NOT NULL,
  count INTEGER NOT NULL,
  lines TEXT NOT NULL,
  PRIMARY KEY (segment, first_seq, line)
) STRICT;

-- Journals of runs that are gone.
CREATE TABLE frame_garbage (segment INTEGER NOT NULL, first_seq INTEGER NOT NULL, PRIMARY KEY (segment, first_seq)) STRICT, WITHOUT ROWID;
`
