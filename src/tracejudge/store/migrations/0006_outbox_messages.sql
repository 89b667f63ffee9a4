-- oldest_reader: 1
-- Which events were put into one message of a channel, so that the same message is sent again after a failure.

ALTER TABLE outbox ADD COLUMN IF NOT EXISTS message String;
