-- Where the database stands between upstream and this program: one row (id 1).

CREATE TABLE IF NOT EXISTS "adoption" (
  "id" INTEGER PRIMARY KEY NOT NULL,
  "found_revision" VARCHAR(32) NOT NULL,
  "state" VARCHAR(16) NOT NULL,
  "changed_ms" BIGINT NOT NULL
);

-- What upstream could not read, or has no room for, kept here while upstream has the database. Adopting it again puts it back.

CREATE TABLE IF NOT EXISTS "set_aside" (
  "id" INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  "kind" VARCHAR(32) NOT NULL,
  "row_key" VARCHAR(255) NOT NULL,
  "value" TEXT NOT NULL,
  "created_ms" BIGINT NOT NULL,
  CONSTRAINT "uniq_set_aside0kind0row_key" UNIQUE ("kind", "row_key")
);
