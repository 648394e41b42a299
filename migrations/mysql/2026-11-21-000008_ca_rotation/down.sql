DROP TABLE IF EXISTS `ca_rotation`;
