DROP TABLE IF EXISTS cloud_resource;
DROP TABLE IF EXISTS operation_event;
DROP TABLE IF EXISTS operation;
