-- Upstream's tables as its 20.0.2 release leaves them (alembic revision c0f832afc4fd): names, types, column order, keys and the
-- mixed character sets are upstream's, because either implementation must be able to start on this database.
-- Everything is IF NOT EXISTS: on a database that upstream made, this migration finds its work done.

CREATE TABLE IF NOT EXISTS `cluster` (
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `id` INT NOT NULL AUTO_INCREMENT,
  `uuid` VARCHAR(36) NULL,
  `name` VARCHAR(255) NULL,
  `cluster_template_id` VARCHAR(255) NULL,
  `api_address` VARCHAR(255) NULL,
  `stack_id` VARCHAR(255) NULL,
  `project_id` VARCHAR(255) NULL,
  `user_id` VARCHAR(255) NULL,
  `status` VARCHAR(20) NULL,
  `discovery_url` VARCHAR(255) NULL,
  `status_reason` TEXT NULL,
  `ca_cert_ref` VARCHAR(512) NULL,
  `magnum_cert_ref` VARCHAR(512) NULL,
  `create_timeout` INT NULL,
  `trust_id` VARCHAR(255) NULL,
  `trustee_username` VARCHAR(255) NULL,
  `trustee_user_id` VARCHAR(255) NULL,
  `trustee_password` VARCHAR(255) NULL,
  `coe_version` VARCHAR(255) NULL,
  `container_version` VARCHAR(255) NULL,
  `keypair` VARCHAR(255) NULL,
  `docker_volume_size` INT NULL,
  `labels` TEXT NULL,
  `master_flavor_id` VARCHAR(255) NULL,
  `flavor_id` VARCHAR(255) NULL,
  `health_status` VARCHAR(20) NULL,
  `health_status_reason` TEXT NULL,
  `fixed_network` VARCHAR(255) NULL,
  `fixed_subnet` VARCHAR(255) NULL,
  `floating_ip_enabled` TINYINT(1) NULL,
  `master_lb_enabled` TINYINT(1) NULL,
  `etcd_ca_cert_ref` VARCHAR(512) NULL,
  `front_proxy_ca_cert_ref` VARCHAR(512) NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_bay0uuid` (uuid)
) ENGINE=InnoDB CHARSET=utf8;

CREATE TABLE IF NOT EXISTS `cluster_template` (
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `id` INT NOT NULL AUTO_INCREMENT,
  `uuid` VARCHAR(36) NULL,
  `name` VARCHAR(255) NULL,
  `flavor_id` VARCHAR(255) NULL,
  `keypair_id` VARCHAR(255) NULL,
  `image_id` VARCHAR(255) NULL,
  `external_network_id` VARCHAR(255) NULL,
  `dns_nameserver` VARCHAR(255) NULL,
  `apiserver_port` INT NULL,
  `project_id` VARCHAR(255) NULL,
  `user_id` VARCHAR(255) NULL,
  `docker_volume_size` INT NULL,
  `fixed_network` VARCHAR(255) NULL,
  `master_flavor_id` VARCHAR(255) NULL,
  `cluster_distro` VARCHAR(255) NULL,
  `coe` VARCHAR(255) NULL,
  `http_proxy` VARCHAR(255) NULL,
  `https_proxy` VARCHAR(255) NULL,
  `no_proxy` VARCHAR(255) NULL,
  `registry_enabled` TINYINT(1) NULL,
  `network_driver` VARCHAR(255) NULL,
  `labels` TEXT NULL,
  `tls_disabled` TINYINT(1) NULL,
  `public` TINYINT(1) NULL,
  `server_type` VARCHAR(255) NULL DEFAULT 'vm',
  `volume_driver` VARCHAR(255) NULL,
  `insecure_registry` VARCHAR(255) NULL,
  `docker_storage_driver` VARCHAR(512) NULL,
  `master_lb_enabled` TINYINT(1) NULL,
  `fixed_subnet` VARCHAR(255) NULL,
  `floating_ip_enabled` TINYINT(1) NULL,
  `hidden` TINYINT(1) NULL,
  `tags` VARCHAR(255) NULL,
  `driver` VARCHAR(255) NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_baymodel0uuid` (uuid)
) ENGINE=InnoDB CHARSET=utf8;

CREATE TABLE IF NOT EXISTS `nodegroup` (
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `id` INT NOT NULL AUTO_INCREMENT,
  `uuid` VARCHAR(36) NOT NULL,
  `name` VARCHAR(255) NOT NULL,
  `cluster_id` VARCHAR(255) NOT NULL,
  `project_id` VARCHAR(255) NOT NULL,
  `docker_volume_size` INT NULL,
  `labels` TEXT NULL,
  `flavor_id` VARCHAR(255) NULL,
  `image_id` VARCHAR(255) NULL,
  `node_addresses` TEXT NULL,
  `node_count` INT NULL,
  `max_node_count` INT NULL,
  `min_node_count` INT NULL,
  `role` VARCHAR(255) NULL,
  `is_default` TINYINT(1) NULL,
  `stack_id` VARCHAR(255) NULL,
  `status` VARCHAR(20) NULL,
  `status_reason` TEXT NULL,
  `version` VARCHAR(20) NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_nodegroup0uuid` (uuid),
  UNIQUE KEY `uniq_nodegroup0cluster_id0name` (cluster_id, name)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS `x509keypair` (
  `id` INT NOT NULL AUTO_INCREMENT,
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `uuid` VARCHAR(36) NULL,
  `certificate` TEXT NULL,
  `private_key` TEXT NULL,
  `project_id` VARCHAR(255) NULL,
  `user_id` VARCHAR(255) NULL,
  `intermediates` TEXT NULL,
  `private_key_passphrase` TEXT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_x509keypair0uuid` (uuid)
) ENGINE=InnoDB CHARSET=utf8;

CREATE TABLE IF NOT EXISTS `quotas` (
  `id` INT NOT NULL AUTO_INCREMENT,
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `project_id` VARCHAR(255) NULL,
  `resource` VARCHAR(255) NULL,
  `hard_limit` INT NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_quotas0project_id0resource` (project_id, resource)
) ENGINE=InnoDB CHARSET=utf8;

CREATE TABLE IF NOT EXISTS `federation` (
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `id` INT NOT NULL AUTO_INCREMENT,
  `project_id` VARCHAR(255) NULL,
  `uuid` VARCHAR(36) NULL,
  `name` VARCHAR(255) NULL,
  `hostcluster_id` VARCHAR(255) NULL,
  `member_ids` TEXT NULL,
  `status` VARCHAR(20) NULL,
  `status_reason` TEXT NULL,
  `properties` TEXT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_federation0uuid` (uuid)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS `magnum_service` (
  `created_at` DATETIME NULL,
  `updated_at` DATETIME NULL,
  `id` INT NOT NULL AUTO_INCREMENT,
  `report_count` INT NOT NULL,
  `host` VARCHAR(255) NULL,
  `binary` VARCHAR(255) NULL,
  `disabled` TINYINT(1) NULL,
  `disabled_reason` VARCHAR(255) NULL,
  `last_seen_up` DATETIME NULL,
  `forced_down` TINYINT(1) NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uniq_magnum_service0host0binary` (host, `binary`)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS `alembic_version` (
  `version_num` VARCHAR(32) NOT NULL,
  PRIMARY KEY (`version_num`)
) ENGINE=InnoDB;

INSERT INTO `alembic_version` (`version_num`) SELECT 'c0f832afc4fd' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `alembic_version`);
