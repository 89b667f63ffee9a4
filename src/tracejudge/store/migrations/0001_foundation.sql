-- oldest_reader: 1
-- Every statement may run twice, and in two processes at once. Keys come from the trace and the judge alone, so that a
-- redelivery meets its own row; readers use FINAL. Retention counts from stored_at, the server's clock at the insert:
-- a file of last year's answers must not vanish on the day it is ingested, nor may a writer's wrong clock decide.

CREATE TABLE IF NOT EXISTS schema_migrations (
    version UInt32,
    name String,
    oldest_reader UInt32,
    release String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplacingMergeTree(applied_at) ORDER BY version;

-- Content of a trace: a complete one beats an incomplete one, then the first stored wins.
CREATE TABLE IF NOT EXISTS traces (
    environment LowCardinality(String),
    app LowCardinality(String),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    version LowCardinality(String),
    query String CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    response Nullable(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    status LowCardinality(String),
    error Nullable(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    node_ids Array(String) CODEC(ZSTD(1)),
    node_texts Array(Nullable(String)) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    node_scores Array(Nullable(Float64)) CODEC(ZSTD(1)),
    node_metadata Array(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    history_roles Array(LowCardinality(String)),
    history_contents Array(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    reference Nullable(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    expected_ids Array(String) CODEC(ZSTD(1)),
    case_id Nullable(String) CODEC(ZSTD(1)),
    latency_ms Nullable(Float64) CODEC(ZSTD(1)),
    model LowCardinality(Nullable(String)),
    prompt_version LowCardinality(Nullable(String)),
    index_version LowCardinality(Nullable(String)),
    category LowCardinality(Nullable(String)),
    session_id Nullable(String) CODEC(ZSTD(1)),
    user_id Nullable(String) CODEC(ZSTD(1)),
    language LowCardinality(Nullable(String)),
    tags Map(String, String) CODEC(ZSTD(1)),
    truncated Bool,
    lossy Bool,
    head_probability Float64 CODEC(ZSTD(1)),
    sdk LowCardinality(String),
    signals String CODEC(ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    source LowCardinality(String),
    partition Int32,
    offset Int64 CODEC(Delta(8), ZSTD(1)),
    text_chars UInt64 CODEC(ZSTD(1)), -- in the columns that expire: by it a trace without texts is told from an old one
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
PARTITION BY toYYYYMMDD(event_time)
ORDER BY (environment, app, event_time, trace_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

-- Where a trace is: its event time by id, fixed by the first record. Not partitioned, so that one id costs one look
-- into few parts (a partition a day would cost one per day kept).
CREATE TABLE IF NOT EXISTS trace_index (
    environment LowCardinality(String),
    app LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (environment, app, trace_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS scores (
    environment LowCardinality(String),
    app LowCardinality(String),
    judge_name LowCardinality(String),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    judge_id LowCardinality(String),
    run_id LowCardinality(String),
    version LowCardinality(String),
    category LowCardinality(String),
    outcome LowCardinality(String),
    score Nullable(Float64) CODEC(ZSTD(1)),
    reason LowCardinality(String),
    feedback String CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    raw_reply String CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    stratum LowCardinality(String),
    inclusion_probability Float64 CODEC(ZSTD(1)),
    content_hash String CODEC(ZSTD(1)),
    model_reported LowCardinality(String),
    fingerprint LowCardinality(String),
    flags Array(LowCardinality(String)),
    usage_calls UInt32 CODEC(ZSTD(1)),
    usage_input_tokens UInt64 CODEC(ZSTD(1)),
    usage_output_tokens UInt64 CODEC(ZSTD(1)),
    usage_cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    usage_latency_ms Float64 CODEC(ZSTD(1)),
    judged_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    revision UInt32 CODEC(ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)),
    INDEX stored_at_range stored_at TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree(row_version)
PARTITION BY toYYYYMMDD(event_time)
ORDER BY (environment, app, judge_name, event_time, trace_id, judge_id, run_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

-- The order in which live scores were judged, for the detectors: what a cursor reads costs what lies behind the cursor,
-- not what the table holds. Its rows only say where to look; `scores FINAL` says what is there.
CREATE TABLE IF NOT EXISTS scores_by_judged (
    judged_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    environment LowCardinality(String),
    app LowCardinality(String),
    judge_name LowCardinality(String),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    judge_id LowCardinality(String),
    stored_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(judged_at)
ORDER BY (judged_at, trace_id, environment, app, judge_name, event_time, judge_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS scores_to_scores_by_judged TO scores_by_judged AS
SELECT judged_at, trace_id, environment, app, judge_name, event_time, judge_id, stored_at FROM scores
WHERE run_id = 'live';

-- A final decision beats undecided, which beats incomplete; then the latest wins.
CREATE TABLE IF NOT EXISTS ledger (
    environment LowCardinality(String),
    app LowCardinality(String),
    judge_name LowCardinality(String),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    judge_id LowCardinality(String),
    run_id LowCardinality(String),
    version LowCardinality(String),
    category LowCardinality(String),
    decision LowCardinality(String),
    reason LowCardinality(String),
    stratum LowCardinality(String),
    inclusion_probability Float64 CODEC(ZSTD(1)),
    decided_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)),
    INDEX decision_set decision TYPE set(16) GRANULARITY 1
) ENGINE = ReplacingMergeTree(row_version)
PARTITION BY toYYYYMMDD(event_time)
ORDER BY (environment, app, judge_name, event_time, trace_id, judge_id, run_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

CREATE TABLE IF NOT EXISTS parts (
    environment LowCardinality(String),
    app LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    part_hash String CODEC(ZSTD(1)),
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    record String CODEC(ZSTD(3)),
    final Bool,
    ingested_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    source LowCardinality(String),
    partition Int32,
    offset Int64 CODEC(Delta(8), ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
PARTITION BY toYYYYMMDD(event_time)
ORDER BY (environment, app, trace_id, part_hash)
TTL toDateTime(stored_at) + INTERVAL 30 DAY;

CREATE TABLE IF NOT EXISTS labels (
    environment LowCardinality(String),
    app LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    criterion LowCardinality(String),
    source LowCardinality(String),
    value Float64 CODEC(ZSTD(1)),
    note String CODEC(ZSTD(3)),
    labelled_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(labelled_at)
ORDER BY (environment, app, trace_id, criterion, source);

CREATE TABLE IF NOT EXISTS feedback (
    environment LowCardinality(String),
    app LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    feedback_id String CODEC(ZSTD(1)),
    value Nullable(Float64) CODEC(ZSTD(1)),
    comment Nullable(String) CODEC(ZSTD(3)) TTL toDateTime(stored_at) + INTERVAL 30 DAY,
    event_time DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    sdk LowCardinality(String),
    ingested_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (environment, app, trace_id, feedback_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

CREATE TABLE IF NOT EXISTS runs (
    run_id String,
    kind LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    finished_at Nullable(DateTime64(6, 'UTC')),
    manifest String CODEC(ZSTD(3)),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY run_id;

CREATE TABLE IF NOT EXISTS judges (
    judge_name LowCardinality(String),
    judge_id String,
    spec String CODEC(ZSTD(3)),
    heuristic Bool,
    registered_at DateTime64(6, 'UTC'),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY (judge_name, judge_id);

CREATE TABLE IF NOT EXISTS adoptions (
    judge_name LowCardinality(String),
    live_from DateTime64(3, 'UTC'),
    judge_id String,
    adopted_by String,
    note String,
    stored_at DateTime64(6, 'UTC') DEFAULT now64(6)
) ENGINE = ReplacingMergeTree(stored_at) ORDER BY (judge_name, live_from);

CREATE TABLE IF NOT EXISTS verdict_cache (
    content_hash String CODEC(ZSTD(1)),
    judge_id LowCardinality(String),
    repeat UInt16,
    verdict String CODEC(ZSTD(3)),
    row_version UInt64,
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (content_hash, judge_id, repeat)
TTL toDateTime(stored_at) + INTERVAL 30 DAY;

CREATE TABLE IF NOT EXISTS calls (
    judge_name LowCardinality(String),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    call_id String CODEC(ZSTD(1)),
    judge_id LowCardinality(String),
    environment LowCardinality(String),
    app LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    run_id LowCardinality(String),
    status LowCardinality(String),
    attempt UInt16,
    input_tokens UInt64 CODEC(ZSTD(1)),
    output_tokens UInt64 CODEC(ZSTD(1)),
    cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    latency_ms Float64 CODEC(ZSTD(1)),
    model_reported LowCardinality(String),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(started_at)
ORDER BY (judge_name, started_at, call_id)
TTL toDateTime(stored_at) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS minutes (
    environment LowCardinality(String),
    app LowCardinality(String),
    judge_name LowCardinality(String),
    judge_id LowCardinality(String),
    minute DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    version LowCardinality(String),
    category LowCardinality(String),
    stratum LowCardinality(String),
    heuristic Bool,
    n UInt64 CODEC(ZSTD(1)),
    passed UInt64 CODEC(ZSTD(1)),
    invalid UInt64 CODEC(ZSTD(1)),
    sum_w Float64 CODEC(ZSTD(1)),
    sum_w2 Float64 CODEC(ZSTD(1)),
    sum_wx Float64 CODEC(ZSTD(1)),
    sum_w2x Float64 CODEC(ZSTD(1)),
    computed_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(computed_at)
PARTITION BY toYYYYMM(minute)
ORDER BY (environment, app, judge_name, judge_id, minute, version, category, stratum)
TTL toDateTime(computed_at) + INTERVAL 400 DAY;

-- Until when (by stored_at) everything is in minutes.
CREATE TABLE IF NOT EXISTS rollup_state (
    name LowCardinality(String),
    until DateTime64(6, 'UTC')
) ENGINE = ReplacingMergeTree(until) ORDER BY name;

CREATE TABLE IF NOT EXISTS sampling_epochs (
    epoch UInt64,
    starts_at DateTime64(3, 'UTC'),
    rates String CODEC(ZSTD(3)),
    decided_at DateTime64(6, 'UTC'),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY epoch;

CREATE TABLE IF NOT EXISTS budget_leases (
    lease_id String,
    judge_name LowCardinality(String),
    holder String,
    calls UInt64,
    usd Float64,
    granted_at DateTime64(6, 'UTC'),
    expires_at DateTime64(6, 'UTC'),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY (judge_name, lease_id)
TTL toDateTime(expires_at) + INTERVAL 7 DAY;

CREATE TABLE IF NOT EXISTS anchors (
    anchor_set LowCardinality(String),
    case_id String,
    record String CODEC(ZSTD(3)),
    expected String CODEC(ZSTD(1)),
    added_at DateTime64(6, 'UTC'),
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY (anchor_set, case_id);

CREATE TABLE IF NOT EXISTS alert_events (
    event_id String,
    at DateTime64(6, 'UTC'),
    rule LowCardinality(String),
    environment LowCardinality(String),
    app LowCardinality(String),
    judge_name LowCardinality(String),
    judge_id LowCardinality(String),
    slice Array(Tuple(String, String)),
    kind LowCardinality(String),
    severity LowCardinality(String),
    heuristic Bool,
    summary String CODEC(ZSTD(1)),
    evidence String CODEC(ZSTD(3)),
    stored_at DateTime64(6, 'UTC') DEFAULT now64(6)
) ENGINE = ReplacingMergeTree
ORDER BY event_id
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

CREATE TABLE IF NOT EXISTS alert_snapshots (
    name String,
    cursor_judged_at Nullable(DateTime64(6, 'UTC')),
    cursor_trace_id String,
    state String CODEC(ZSTD(3)),
    saved_at DateTime64(6, 'UTC'),
    fencing UInt64,
    row_version UInt64
) ENGINE = ReplacingMergeTree(row_version) ORDER BY name;

CREATE TABLE IF NOT EXISTS user_actions (
    action_id String,
    kind LowCardinality(String),
    target String CODEC(ZSTD(1)),
    start DateTime64(6, 'UTC'),
    end Nullable(DateTime64(6, 'UTC')),
    by String,
    note String CODEC(ZSTD(1)),
    at DateTime64(6, 'UTC')
) ENGINE = ReplacingMergeTree ORDER BY action_id;

CREATE TABLE IF NOT EXISTS outbox (
    event_id String,
    notifier LowCardinality(String),
    state LowCardinality(String),
    attempts UInt32,
    last_error String CODEC(ZSTD(1)),
    updated_at DateTime64(6, 'UTC'),
    row_version UInt64,
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (event_id, notifier)
TTL toDateTime(stored_at) + INTERVAL 400 DAY;

-- Claims, never replaced: who holds a name is worked out from them (see DESIGN.md).
CREATE TABLE IF NOT EXISTS leases (
    name LowCardinality(String),
    fencing UInt64,
    claim_id String,
    holder String,
    released Bool,
    ttl_ms UInt64,
    claimed_at DateTime64(6, 'UTC') DEFAULT now64(6)
) ENGINE = MergeTree
ORDER BY (name, fencing, claimed_at, claim_id)
TTL toDateTime(claimed_at) + INTERVAL 2 DAY;

CREATE TABLE IF NOT EXISTS tombstones (
    environment LowCardinality(String),
    app LowCardinality(String),
    kind LowCardinality(String),
    value String,
    reason String,
    by String,
    at DateTime64(6, 'UTC')
) ENGINE = ReplacingMergeTree(at) ORDER BY (kind, value, environment, app);

CREATE TABLE IF NOT EXISTS dead_letters (
    source LowCardinality(String),
    partition Int32,
    offset Int64 CODEC(Delta(8), ZSTD(1)),
    value_hash String CODEC(ZSTD(1)),
    key Nullable(String) CODEC(ZSTD(1)),
    value String CODEC(ZSTD(3)),
    headers String CODEC(ZSTD(1)),
    reason LowCardinality(String),
    detail String CODEC(ZSTD(1)),
    at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    row_version UInt64 CODEC(ZSTD(1)),
    stored_at DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1))
) ENGINE = ReplacingMergeTree(row_version)
ORDER BY (source, partition, offset, value_hash)
TTL toDateTime(stored_at) + INTERVAL 30 DAY;
