DROP TABLE IF EXISTS `nodegroup_nodes`;
