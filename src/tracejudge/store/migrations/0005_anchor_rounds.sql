-- oldest_reader: 1
-- What a judge said of a set of anchors, one row a round. A round that goes on is written again with more verdicts; a
-- finished one beats it. Kept for good: the first round is what later ones are compared with.

CREATE TABLE IF NOT EXISTS anchor_rounds (
    anchor_set LowCardinality(String),
    judge_name LowCardinality(String),
    judge_id LowCardinality(String),
    round_at DateTime64(6, 'UTC'),
    cause LowCardinality(String),
    finished_at Nullable(DateTime64(6, 'UTC')),
    heuristic Bool,
    model_reported LowCardinality(String),
    fingerprint LowCardinality(String),
    verdicts String CODEC(ZSTD(3)),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY (anchor_set, judge_id, round_at);

-- Whose trace an anchor is, so that it can be forgotten. Until now nothing wrote this table.

ALTER TABLE anchors ADD COLUMN IF NOT EXISTS environment LowCardinality(String);

ALTER TABLE anchors ADD COLUMN IF NOT EXISTS app LowCardinality(String);

ALTER TABLE anchors ADD COLUMN IF NOT EXISTS trace_id String;

ALTER TABLE anchors ADD COLUMN IF NOT EXISTS event_time DateTime64(3, 'UTC');

ALTER TABLE anchors ADD COLUMN IF NOT EXISTS user_id Nullable(String);
