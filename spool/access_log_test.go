package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// trackedRun is the file of a run of the tracker's user that its owner may read.
func trackedRun(t *testing.T, access string) (base, path string) {
	t.Helper()
	base, dir := sharedSpool(t)
	if out, err := as(t, base, trackerUID, trackerUID, "track", dir, access); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	return base, entries[0].Path
}

// onlyOwnerReads asserts that a file next to the database exists, and that the file's group, the
// job's user and others cannot read it.
func onlyOwnerReads(t *testing.T, base, path string) {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil || st.Size() == 0 || ownerOf(t, path) != trackerUID {
		t.Errorf("%s: %v, %v", path, st, err)
	}
	for name, who := range map[string][2]uint32{"a member of the file's group": {strangerUID, trackerUID}, "the job's user": {ownerUID, ownerUID}, "a stranger": {strangerUID, strangerUID}} {
		if out, err := as(t, base, who[0], who[1], "peek", path); err == nil || !strings.Contains(out, "permission denied") {
			t.Errorf("%s reads %s: %v: %s", name, filepath.Base(path), err, out)
		}
	}
}

// While root changes a run, there is a journal. Users that may not read the run may not read the
// journal either, and after the change it does not exist.
func TestNobodyReadsTheJournal(t *testing.T) {
	base, path := trackedRun(t, "group")
	r := mustOpen(t, path)
	err := r.change("test", func() error {
		// So many pages that SQLite must write some of them before the end.
		err := r.db.exec(`PRAGMA cache_size = 2; UPDATE run SET comment = hex(zeroblob(5000));
			INSERT INTO event (detail) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT hex(zeroblob(900)) FROM n`)
		onlyOwnerReads(t, base, path+"-journal")
		return err
	})
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err != nil || out != "snapshots: 5\n" {
		t.Errorf("the job's user, afterwards: %v: %s", err, out)
	}
}

// If another process has a run open when its tracker ends, its log stays for a while.
func TestNobodyReadsTheLog(t *testing.T) {
	base, path := trackedRun(t, "owner")
	c, err := openConn(path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.exec("PRAGMA journal_mode = WAL"); err != nil {
		t.Fatal(err)
	}
	held, err := c.hold()
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, path)
	if err := r.AddEvent(rt.Event{Kind: "drain"}); err != nil {
		t.Fatal(err)
	}
	onlyOwnerReads(t, base, path+"-wal")
	if err := errors.Join(held.Close(), c.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
}

// A change that was broken off before its first write leaves an empty journal. The next writer
// removes it, and the job's user reads on.
func TestAnEmptyJournalIsRemoved(t *testing.T) {
	base, path := trackedRun(t, "owner")
	if err := hideJournal(path); err != nil { // as root, who may die right afterwards
		t.Fatal(err)
	}
	onlyOwnerReads(t, base, path+"-journal")
	if out, err := as(t, base, trackerUID, trackerUID, "open", path); err != nil || out != "events: 1\n" {
		t.Errorf("the file's owner: %v: %s", err, out)
	}
	onlyFile(t, path)
	if err := hideJournal(path); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, path)
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err != nil || out != "snapshots: 5\n" {
		t.Errorf("the job's user: %v: %s", err, out)
	}
}
