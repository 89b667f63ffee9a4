-- oldest_reader: 1
-- Shares of a cap, stamped by the store's clock. Until now nothing wrote this table.

ALTER TABLE budget_leases
    ADD COLUMN IF NOT EXISTS cap LowCardinality(String),
    ADD COLUMN IF NOT EXISTS window_start DateTime64(6, 'UTC'),
    MODIFY COLUMN granted_at DateTime64(6, 'UTC') DEFAULT now64(6);
