DROP TABLE IF EXISTS "idempotency_key";
DROP TABLE IF EXISTS "event_guard";
ALTER TABLE "operation_event" DROP COLUMN "details";
DROP INDEX IF EXISTS "ix_operation_project";
DROP INDEX IF EXISTS "ix_operation_finished";
ALTER TABLE "operation" DROP COLUMN "started_ms";
ALTER TABLE "operation" DROP COLUMN "cancel_ms";
ALTER TABLE "operation" DROP COLUMN "cloud_error";
