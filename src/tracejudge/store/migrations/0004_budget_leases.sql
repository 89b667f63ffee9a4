-- oldest_reader: 1
-- Shares of a cap. Until now nothing wrote this table.

ALTER TABLE budget_leases ADD COLUMN IF NOT EXISTS cap LowCardinality(String);

ALTER TABLE budget_leases ADD COLUMN IF NOT EXISTS window_start DateTime64(6, 'UTC');

ALTER TABLE budget_leases ADD COLUMN IF NOT EXISTS claimed_at DateTime64(6, 'UTC') DEFAULT now64(6);
