-- oldest_reader: 1
-- Verdicts where one of them can be found: granules of 128 rows in blocks of some kilobytes, and a filter that knows which
-- hashes a granule does not have. In `verdict_cache` each hash that was asked for read 8192 rows with their texts.
CREATE TABLE IF NOT EXISTS cached_verdicts (
    content_hash String CODEC(ZSTD(1)),
    judge_id LowCardinality(String),
    repeat UInt16,
    verdict String CODEC(ZSTD(3)),
    row_version UInt64 DEFAULT toUInt64(9223372036854775807 - toUnixTimestamp64Micro(now64(6))),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)),
    INDEX known content_hash TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (content_hash, judge_id, repeat)
TTL toDateTime(stored_at) + INTERVAL 30 DAY
SETTINGS index_granularity = 128, min_compress_block_size = 8192, max_compress_block_size = 16384;

-- A copy that is made twice is one, since rows of a key replace each other. The old table is left to the release before
-- and ends with its rows' time; `forget` looks into both.
INSERT INTO cached_verdicts (content_hash, judge_id, repeat, verdict, row_version, stored_at)
SELECT content_hash, judge_id, repeat, verdict, row_version, stored_at FROM verdict_cache;
