-- The outbox of notifications: a row is written in the transaction of the change that it tells of, and removed once the broker has confirmed it.
-- `id` is the order of telling; `uuid` the message id, which follows from the change: the same change is never told under two ids.

CREATE TABLE IF NOT EXISTS `notification` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `uuid` VARCHAR(36) NOT NULL,
  `priority` VARCHAR(8) NOT NULL,
  `body` MEDIUMTEXT NOT NULL,
  `created_ms` BIGINT NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_notification0uuid` (uuid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- Who does a standing task that one conductor at a time does.

CREATE TABLE IF NOT EXISTS `task_lease` (
  `name` VARCHAR(64) NOT NULL,
  `owner` VARCHAR(255) NOT NULL,
  `lease_ms` BIGINT NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- When the health of a cluster is looked at next, who took the last look on himself, and when an agent in the cluster last reported it.

CREATE TABLE IF NOT EXISTS `cluster_health` (
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `owner` VARCHAR(255) NULL,
  `due_ms` BIGINT NOT NULL,
  `reported_ms` BIGINT NULL,
  PRIMARY KEY (`cluster_uuid`),
  KEY `ix_cluster_health_due` (due_ms)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
