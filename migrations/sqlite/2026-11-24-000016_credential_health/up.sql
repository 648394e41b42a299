-- When the credentials and certificates of a cluster are looked at next, who took the last look on himself, and what it saw.
-- Columns are added, nullable: programs without them work on beside those with them.

ALTER TABLE "cluster_health" ADD COLUMN "credentials_owner" VARCHAR(255) NULL;

ALTER TABLE "cluster_health" ADD COLUMN "credentials_due_ms" BIGINT NULL;

ALTER TABLE "cluster_health" ADD COLUMN "credentials_seen_ms" BIGINT NULL;

ALTER TABLE "cluster_health" ADD COLUMN "credentials_error" TEXT NULL;

ALTER TABLE "cluster_health" ADD COLUMN "certificates_end_ms" BIGINT NULL;

CREATE INDEX IF NOT EXISTS "ix_cluster_health_credentials_due" ON "cluster_health" (credentials_due_ms);
