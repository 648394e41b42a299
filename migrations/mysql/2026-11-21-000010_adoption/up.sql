-- Where the database stands between upstream and this program: one row (id 1).

CREATE TABLE IF NOT EXISTS `adoption` (
  `id` INT NOT NULL,
  `found_revision` VARCHAR(32) NOT NULL,
  `state` VARCHAR(16) NOT NULL,
  `changed_ms` BIGINT NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

-- What upstream could not read, or has no room for, kept here while upstream has the database. Adopting it again puts it back.

CREATE TABLE IF NOT EXISTS `set_aside` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `kind` VARCHAR(32) NOT NULL,
  `row_key` VARCHAR(255) NOT NULL,
  `value` TEXT NOT NULL,
  `created_ms` BIGINT NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_set_aside0kind0row_key` (kind, row_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
