-- Which management cluster a cluster of the Cluster API driver is on, by its name in the configuration. Upstream knows one.

CREATE TABLE IF NOT EXISTS `capi_placement` (
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `management_cluster` VARCHAR(63) NOT NULL,
  `placed_ms` BIGINT NOT NULL,
  PRIMARY KEY (`cluster_uuid`),
  KEY `capi_placement_management_cluster_idx` (`management_cluster`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- One row: transactions that choose a management cluster write it first, so that each counts what the one before it has placed.

CREATE TABLE IF NOT EXISTS `capi_guard` (
  `name` VARCHAR(63) NOT NULL,
  `touched` BIGINT NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
