-- The user with which Grafana reads the database of rt-site. It sees the jobs of all users, and nothing else: the
-- table setting has the key of all credentials. Set a password: \password grafana
CREATE ROLE grafana LOGIN;
GRANT SELECT ON job, node TO grafana;
