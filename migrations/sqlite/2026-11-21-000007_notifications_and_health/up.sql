-- The outbox of notifications: a row is written in the transaction of the change that it tells of, and removed once the broker has confirmed it.
-- `id` is the order of telling; `uuid` the message id, which follows from the change: the same change is never told under two ids.

CREATE TABLE IF NOT EXISTS "notification" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "uuid" VARCHAR(36) NOT NULL,
  "priority" VARCHAR(8) NOT NULL,
  "body" TEXT NOT NULL,
  "created_ms" BIGINT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS "uniq_notification0uuid" ON "notification" (uuid);

-- Who does a standing task that one conductor at a time does.

CREATE TABLE IF NOT EXISTS "task_lease" (
  "name" VARCHAR(64) PRIMARY KEY NOT NULL,
  "owner" VARCHAR(255) NOT NULL,
  "lease_ms" BIGINT NOT NULL
);

-- When the health of a cluster is looked at next, who took the last look on himself, and when an agent in the cluster last reported it.

CREATE TABLE IF NOT EXISTS "cluster_health" (
  "cluster_uuid" VARCHAR(36) PRIMARY KEY NOT NULL,
  "owner" VARCHAR(255) NULL,
  "due_ms" BIGINT NOT NULL,
  "reported_ms" BIGINT NULL
);
CREATE INDEX IF NOT EXISTS "ix_cluster_health_due" ON "cluster_health" (due_ms);
