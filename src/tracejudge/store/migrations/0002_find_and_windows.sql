-- oldest_reader: 1
-- Additive: the first release goes on beside it. Parts written before have none of these indexes and are read whole until
-- they are merged; `ALTER TABLE traces MATERIALIZE INDEX words` (and `user_ids`) does it at once.

-- One answer out of millions: by a person's pseudonym, and by the words of question and answer. The words of an expired
-- or deleted text leave the index with it (it is rebuilt whenever a part is).
ALTER TABLE traces ADD INDEX IF NOT EXISTS user_ids user_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE traces ADD INDEX IF NOT EXISTS words lowerUTF8(concat(query, ' ', ifNull(response, ''))) TYPE text(tokenizer = 'splitByNonAlpha');

-- What was stored lately: the sweep behind `forget` asks for it once a minute.
ALTER TABLE traces ADD INDEX IF NOT EXISTS stored_at_range stored_at TYPE minmax GRANULARITY 1;
ALTER TABLE ledger ADD INDEX IF NOT EXISTS stored_at_range stored_at TYPE minmax GRANULARITY 1;

-- For the mean score: the sum of weight times score.
ALTER TABLE minutes ADD COLUMN IF NOT EXISTS sum_ws Float64 CODEC(ZSTD(1));
