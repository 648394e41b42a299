-- What an operation tells beyond its state, the order of a cluster's events, and the answers to requests that carry a key.
-- Columns are added, nullable: programs without them work on beside those with them.

ALTER TABLE `operation`
  ADD COLUMN IF NOT EXISTS `started_ms` BIGINT NULL,
  ADD COLUMN IF NOT EXISTS `cancel_ms` BIGINT NULL,
  ADD COLUMN IF NOT EXISTS `cloud_error` TEXT NULL,
  ADD KEY IF NOT EXISTS `ix_operation_project` (project_id, id),
  ADD KEY IF NOT EXISTS `ix_operation_finished` (finished_ms, id);

ALTER TABLE `operation_event` ADD COLUMN IF NOT EXISTS `details` TEXT NULL;

-- One row a cluster: whoever appends an event writes it first, so that the ids of a cluster's events grow in the order in which they can be seen.
CREATE TABLE IF NOT EXISTS `event_guard` (
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `touched` BIGINT NOT NULL,
  PRIMARY KEY (`cluster_uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

CREATE TABLE IF NOT EXISTS `idempotency_key` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `project_id` VARCHAR(255) NOT NULL,
  `idempotency_key` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `fingerprint` VARCHAR(64) NOT NULL,
  `holder` VARCHAR(36) NOT NULL,
  `status` INT NULL,
  `location` TEXT NULL,
  `body` MEDIUMTEXT NULL,
  `created_ms` BIGINT NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_idempotency_key0project0key` (project_id, idempotency_key),
  KEY `ix_idempotency_key_created` (created_ms)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
