-- Our own tables beside upstream's, joined by cluster uuid; dropping them harms nothing of upstream's.
-- Times are milliseconds since the epoch, UTC: leases and due times need more than DATETIME's whole seconds on both databases.

CREATE TABLE IF NOT EXISTS "operation" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "uuid" VARCHAR(36) NOT NULL,
  "kind" VARCHAR(32) NOT NULL,
  "cluster_uuid" VARCHAR(36) NOT NULL,
  "project_id" VARCHAR(255) NOT NULL,
  "user_id" VARCHAR(255) NOT NULL,
  "request_id" VARCHAR(64) NULL,
  "state" VARCHAR(16) NOT NULL,
  "step" VARCHAR(64) NOT NULL,
  "waiting_for" TEXT NULL,
  "attempt" INTEGER NOT NULL,
  "generation" INTEGER NOT NULL,
  "owner" VARCHAR(255) NULL,
  "lease_ms" BIGINT NULL,
  "due_ms" BIGINT NOT NULL,
  "deadline_ms" BIGINT NOT NULL,
  "progress_done" INTEGER NOT NULL,
  "progress_total" INTEGER NOT NULL,
  "outcome_code" VARCHAR(32) NULL,
  "outcome_reason" TEXT NULL,
  "payload" TEXT NOT NULL,
  "sealed_token" TEXT NULL,
  "created_ms" BIGINT NOT NULL,
  "updated_ms" BIGINT NOT NULL,
  "finished_ms" BIGINT NULL,
  CONSTRAINT "uniq_operation0uuid" UNIQUE (uuid)
);

CREATE INDEX IF NOT EXISTS "ix_operation_state_due" ON "operation" (state, due_ms);

CREATE INDEX IF NOT EXISTS "ix_operation_cluster" ON "operation" (cluster_uuid, id);

CREATE TABLE IF NOT EXISTS "operation_event" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "operation_uuid" VARCHAR(36) NOT NULL,
  "cluster_uuid" VARCHAR(36) NOT NULL,
  "at_ms" BIGINT NOT NULL,
  "kind" VARCHAR(32) NOT NULL,
  "message" TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS "ix_operation_event_cluster" ON "operation_event" (cluster_uuid, id);

CREATE INDEX IF NOT EXISTS "ix_operation_event_operation" ON "operation_event" (operation_uuid, id);

CREATE TABLE IF NOT EXISTS "cloud_resource" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "cluster_uuid" VARCHAR(36) NOT NULL,
  "kind" VARCHAR(32) NOT NULL,
  "name" VARCHAR(255) NOT NULL,
  "resource_id" VARCHAR(255) NULL,
  "on_delete" VARCHAR(16) NOT NULL,
  "created_ms" BIGINT NOT NULL,
  "updated_ms" BIGINT NOT NULL,
  CONSTRAINT "uniq_cloud_resource0cluster0kind0name" UNIQUE (cluster_uuid, kind, name)
);
