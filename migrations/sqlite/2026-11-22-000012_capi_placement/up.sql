-- Which management cluster a cluster of the Cluster API driver is on, by its name in the configuration. Upstream knows one.

CREATE TABLE IF NOT EXISTS "capi_placement" (
  "cluster_uuid" VARCHAR(36) PRIMARY KEY NOT NULL,
  "management_cluster" VARCHAR(63) NOT NULL,
  "placed_ms" BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS "capi_placement_management_cluster_idx" ON "capi_placement" ("management_cluster");

-- One row: transactions that choose a management cluster write it first, so that each counts what the one before it has placed.

CREATE TABLE IF NOT EXISTS "capi_guard" (
  "name" VARCHAR(63) PRIMARY KEY NOT NULL,
  "touched" BIGINT NOT NULL
);
