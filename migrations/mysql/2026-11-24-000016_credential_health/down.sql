ALTER TABLE `cluster_health`
  DROP KEY IF EXISTS `ix_cluster_health_credentials_due`,
  DROP COLUMN IF EXISTS `credentials_owner`,
  DROP COLUMN IF EXISTS `credentials_due_ms`,
  DROP COLUMN IF EXISTS `credentials_seen_ms`,
  DROP COLUMN IF EXISTS `credentials_error`,
  DROP COLUMN IF EXISTS `certificates_end_ms`;
