-- Our own tables beside upstream's, joined by cluster uuid; dropping them harms nothing of upstream's.
-- Times are milliseconds since the epoch, UTC: leases and due times need more than DATETIME's whole seconds on both databases.

CREATE TABLE IF NOT EXISTS `operation` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `uuid` VARCHAR(36) NOT NULL,
  `kind` VARCHAR(32) NOT NULL,
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `project_id` VARCHAR(255) NOT NULL,
  `user_id` VARCHAR(255) NOT NULL,
  `request_id` VARCHAR(64) NULL,
  `state` VARCHAR(16) NOT NULL,
  `step` VARCHAR(64) NOT NULL,
  `waiting_for` TEXT NULL,
  `attempt` INT NOT NULL,
  `generation` INT NOT NULL,
  `owner` VARCHAR(255) NULL,
  `lease_ms` BIGINT NULL,
  `due_ms` BIGINT NOT NULL,
  `deadline_ms` BIGINT NOT NULL,
  `progress_done` INT NOT NULL,
  `progress_total` INT NOT NULL,
  `outcome_code` VARCHAR(32) NULL,
  `outcome_reason` TEXT NULL,
  `payload` TEXT NOT NULL,
  `sealed_token` TEXT NULL,
  `created_ms` BIGINT NOT NULL,
  `updated_ms` BIGINT NOT NULL,
  `finished_ms` BIGINT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_operation0uuid` (uuid),
  KEY `ix_operation_state_due` (state, due_ms),
  KEY `ix_operation_cluster` (cluster_uuid, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

CREATE TABLE IF NOT EXISTS `operation_event` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `operation_uuid` VARCHAR(36) NOT NULL,
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `at_ms` BIGINT NOT NULL,
  `kind` VARCHAR(32) NOT NULL,
  `message` TEXT NOT NULL,
  PRIMARY KEY (`id`),
  KEY `ix_operation_event_cluster` (cluster_uuid, id),
  KEY `ix_operation_event_operation` (operation_uuid, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

CREATE TABLE IF NOT EXISTS `cloud_resource` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `kind` VARCHAR(32) NOT NULL,
  `name` VARCHAR(255) NOT NULL,
  `resource_id` VARCHAR(255) NULL,
  `on_delete` VARCHAR(16) NOT NULL,
  `created_ms` BIGINT NOT NULL,
  `updated_ms` BIGINT NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_cloud_resource0cluster0kind0name` (cluster_uuid, kind, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
