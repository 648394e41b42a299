-- Deliberately empty: these tables are upstream's and hold the operator's clusters. Upstream has no downgrades either.
SELECT 1;
