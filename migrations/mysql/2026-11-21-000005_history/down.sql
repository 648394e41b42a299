DROP TABLE IF EXISTS `idempotency_key`;
DROP TABLE IF EXISTS `event_guard`;
ALTER TABLE `operation_event` DROP COLUMN IF EXISTS `details`;
ALTER TABLE `operation`
  DROP KEY IF EXISTS `ix_operation_project`,
  DROP KEY IF EXISTS `ix_operation_finished`,
  DROP COLUMN IF EXISTS `started_ms`,
  DROP COLUMN IF EXISTS `cancel_ms`,
  DROP COLUMN IF EXISTS `cloud_error`;
