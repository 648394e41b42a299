-- One row a project: the transactions that use up its quota write it first, so that they queue up behind each other.
-- `touched` grows with each of them: a write that changes nothing would not be seen by Galera's certification.

CREATE TABLE IF NOT EXISTS `project_guard` (
  `project_id` VARCHAR(255) NOT NULL,
  `touched` BIGINT NOT NULL,
  PRIMARY KEY (`project_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
