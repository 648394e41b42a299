DROP TABLE IF EXISTS cluster_health;
DROP TABLE IF EXISTS task_lease;
DROP TABLE IF EXISTS notification;
