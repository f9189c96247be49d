-- Copies what Grafana shows from the SQLite database of rt-site into new.db: the jobs of all users, and the nodes. Grafana
-- must not read the database itself, because the table setting has the key of all credentials.
ATTACH 'new.db' AS copy;
BEGIN;
CREATE TABLE copy.job AS SELECT * FROM main.job;
CREATE INDEX copy.job_started ON job (started);
CREATE TABLE copy.node AS SELECT * FROM main.node;
COMMIT;
