//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const guestSlurmConf = "/etc/slurm/slurm.conf"

// setSlurmConf replaces slurm.conf in the machine and restarts Slurm.
func setSlurmConf(t *testing.T, c *cluster, text string) {
	t.Helper()
	if err := os.WriteFile(guestSlurmConf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.nodes {
		c.slurmd(t, "stop", node)
	}
	command(t, "systemctl", "restart", "slurmctld")
	for _, node := range c.nodes {
		c.slurmd(t, "start", node)
	}
	until(t, "idle nodes", func() bool { return c.root(t, "sinfo", "-h", "-N", "-o", "%t") == "idle\nidle" })
}

// guestDatabase starts MariaDB, without the unit of its package, and slurmdbd.
const guestDatabase = `set -e
mkdir -p /opt/mariadb
mariadb-install-db --no-defaults --force --user=root --datadir=/opt/mariadb/data --skip-test-db --auth-root-authentication-method=socket
cat >/opt/mariadb/init.sql <<EOF
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER 'slurm'@'10.99.0.1' IDENTIFIED BY 'of-a-test';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'10.99.0.1';
EOF
systemd-run --quiet --unit=mariadbd mariadbd --no-defaults --user=root --datadir=/opt/mariadb/data --socket=/opt/mariadb/socket \
    --pid-file=/opt/mariadb/pid --bind-address=10.99.0.1 --skip-name-resolve --innodb-buffer-pool-size=32M \
    --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --innodb-snapshot-isolation=OFF --init-file=/opt/mariadb/init.sql
umask 077
cat >/etc/slurm/slurmdbd.conf <<EOF
AuthType=auth/munge
DbdHost=cg2vm
DbdAddr=10.99.0.1
SlurmUser=slurm
PidFile=/run/slurmdbd.pid
LogFile=/var/log/slurm/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=10.99.0.1
StorageUser=slurm
StoragePass=of-a-test
StorageLoc=slurm_acct_db
CommitDelay=1
EOF
chown slurm:slurm /etc/slurm/slurmdbd.conf
systemd-run --quiet --unit=slurmdbd-of-test --property=Restart=on-failure --property=RestartSec=2 slurmdbd -D`

// startAccounting starts slurmdbd in the machine, which has none, and makes Slurm use it until the end of the test.
func startAccounting(t *testing.T, c *cluster, s *site) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			const logs = "journalctl --no-pager -n 40 -u mariadbd -u slurmdbd-of-test; tail -n 40 /var/log/slurm/slurmdbd.log /var/log/slurm/slurmctld.log"
			out, err := exec.Command("sh", "-c", logs).CombinedOutput()
			t.Logf("%s, %v", out, err)
		}
	})
	command(t, "bash", "-c", guestDatabase)
	before, err := os.ReadFile(guestSlurmConf)
	if err != nil {
		t.Fatal(err)
	}
	const (
		none  = "AccountingStorageType=accounting_storage/none"
		byDBD = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=10.99.0.1"
	)
	text := strings.Replace(string(before), none, byDBD, 1)
	if text == string(before) {
		t.Fatalf("%s does not have %s", guestSlurmConf, none)
	}
	t.Cleanup(func() {
		setSlurmConf(t, c, string(before))
		command(t, "systemctl", "stop", "slurmdbd-of-test", "mariadbd")
	})
	if err := os.WriteFile(guestSlurmConf, []byte(text), 0o644); err != nil { // for sacctmgr
		t.Fatal(err)
	}
	until(t, "slurmdbd", func() bool { return exec.Command("sacctmgr", "-nP", "show", "cluster").Run() == nil })
	for _, entity := range []string{"cluster " + c.name, "account testers cluster=" + c.name, "user " + c.user + " account=testers cluster=" + c.name} {
		command(t, "sacctmgr", append([]string{"-iQ", "add"}, strings.Fields(entity)...)...)
	}
	if err := os.Remove("/var/lib/slurm/slurmctld/clustername"); err != nil { // it has the number of a cluster without slurmdbd
		t.Fatal(err)
	}
	setSlurmConf(t, c, text)
	if err := os.WriteFile(s.path("sacct"), []byte("#!/bin/sh\nexec sacct \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
