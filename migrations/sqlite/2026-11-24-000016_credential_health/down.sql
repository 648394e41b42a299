DROP INDEX IF EXISTS "ix_cluster_health_credentials_due";
ALTER TABLE "cluster_health" DROP COLUMN "credentials_owner";
ALTER TABLE "cluster_health" DROP COLUMN "credentials_due_ms";
ALTER TABLE "cluster_health" DROP COLUMN "credentials_seen_ms";
ALTER TABLE "cluster_health" DROP COLUMN "credentials_error";
ALTER TABLE "cluster_health" DROP COLUMN "certificates_end_ms";
