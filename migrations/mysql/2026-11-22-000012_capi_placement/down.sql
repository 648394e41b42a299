DROP TABLE IF EXISTS capi_guard;
DROP TABLE IF EXISTS capi_placement;
