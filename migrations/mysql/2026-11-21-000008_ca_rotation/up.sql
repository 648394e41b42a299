-- Certificate authorities on their way in or out: upstream's rows have room for one set of references.

CREATE TABLE IF NOT EXISTS `ca_rotation` (
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `generation` VARCHAR(36) NOT NULL,
  `phase` VARCHAR(16) NOT NULL,
  `ca_cert_ref` VARCHAR(512),
  `etcd_ca_cert_ref` VARCHAR(512),
  `front_proxy_ca_cert_ref` VARCHAR(512),
  `magnum_cert_ref` VARCHAR(512),
  `started_ms` BIGINT NOT NULL,
  PRIMARY KEY (`cluster_uuid`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
