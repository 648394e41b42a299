-- What an operation tells beyond its state, the order of a cluster's events, and the answers to requests that carry a key.
-- Columns are added, nullable: programs without them work on beside those with them.

ALTER TABLE "operation" ADD COLUMN "started_ms" BIGINT NULL;

ALTER TABLE "operation" ADD COLUMN "cancel_ms" BIGINT NULL;

ALTER TABLE "operation" ADD COLUMN "cloud_error" TEXT NULL;

CREATE INDEX IF NOT EXISTS "ix_operation_project" ON "operation" (project_id, id);

CREATE INDEX IF NOT EXISTS "ix_operation_finished" ON "operation" (finished_ms, id);

ALTER TABLE "operation_event" ADD COLUMN "details" TEXT NULL;

-- One row a cluster: whoever appends an event writes it first, so that the ids of a cluster's events grow in the order in which they can be seen.
CREATE TABLE IF NOT EXISTS "event_guard" (
  "cluster_uuid" VARCHAR(36) PRIMARY KEY NOT NULL,
  "touched" BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS "idempotency_key" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "project_id" VARCHAR(255) NOT NULL,
  "idempotency_key" VARCHAR(255) NOT NULL,
  "fingerprint" VARCHAR(64) NOT NULL,
  "holder" VARCHAR(36) NOT NULL,
  "status" INTEGER NULL,
  "location" TEXT NULL,
  "body" TEXT NULL,
  "created_ms" BIGINT NOT NULL,
  CONSTRAINT "uniq_idempotency_key0project0key" UNIQUE (project_id, idempotency_key)
);

CREATE INDEX IF NOT EXISTS "ix_idempotency_key_created" ON "idempotency_key" (created_ms);
