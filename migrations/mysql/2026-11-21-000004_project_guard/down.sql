DROP TABLE IF EXISTS project_guard;
