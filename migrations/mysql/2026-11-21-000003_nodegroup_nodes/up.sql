-- How the nodes of a group register with Kubernetes: upstream's tables (20.x) have no room for labels and taints of nodes.

CREATE TABLE IF NOT EXISTS `nodegroup_nodes` (
  `nodegroup_uuid` VARCHAR(36) NOT NULL,
  `cluster_uuid` VARCHAR(36) NOT NULL,
  `node_labels` TEXT NOT NULL,
  `node_taints` TEXT NOT NULL,
  PRIMARY KEY (`nodegroup_uuid`),
  KEY `ix_nodegroup_nodes_cluster` (cluster_uuid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
