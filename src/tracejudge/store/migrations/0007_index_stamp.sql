-- oldest_reader: 1
-- The stamp by which the first of several writers wins, made by the store for whoever does not give one: the writer then
-- sends plain columns instead of a statement that computes it.
ALTER TABLE trace_index MODIFY COLUMN
    row_version UInt64 DEFAULT toUInt64(9223372036854775807 - toUnixTimestamp64Micro(now64(6))) CODEC(ZSTD(1));
