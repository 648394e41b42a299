-- When the credentials and certificates of a cluster are looked at next, who took the last look on himself, and what it saw.
-- Columns are added, nullable: programs without them work on beside those with them.

ALTER TABLE `cluster_health`
  ADD COLUMN IF NOT EXISTS `credentials_owner` VARCHAR(255) NULL,
  ADD COLUMN IF NOT EXISTS `credentials_due_ms` BIGINT NULL,
  ADD COLUMN IF NOT EXISTS `credentials_seen_ms` BIGINT NULL,
  ADD COLUMN IF NOT EXISTS `credentials_error` TEXT NULL,
  ADD COLUMN IF NOT EXISTS `certificates_end_ms` BIGINT NULL,
  ADD KEY IF NOT EXISTS `ix_cluster_health_credentials_due` (credentials_due_ms);
