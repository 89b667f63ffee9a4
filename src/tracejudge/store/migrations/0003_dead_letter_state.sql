-- oldest_reader: 1
-- What was done about a dead letter: '' nothing yet, 'replayed', 'dropped'. A row with a state is a later version of the
-- same key, so that nothing needs the right to delete; the same record delivered again does not undo it.

ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS state LowCardinality(String) DEFAULT '' AFTER at;

ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS marked_at Nullable(DateTime64(6, 'UTC')) AFTER state;
