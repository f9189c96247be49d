package registry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
)

// smallDisk mounts a file system of a size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rt-small-") // PostgreSQL may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0777"); err != nil {
		t.Skipf("needs root: mounts a tmpfs (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A full disk is site.ErrFull. It costs no acknowledged change, and the registry goes on as soon as
// there is room.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "3m")
	checkIntegrity(t, fullDisk(t, dir, filepath.Join(dir, "registry.db")))
}

// Without room no registry is opened on a file system with small blocks: SQLite could end the program with SIGBUS.
func TestNoStartOnAFullDiskOfSmallBlocks(t *testing.T) {
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	is(t, "image", os.WriteFile(image, make([]byte, 4<<20), 0o600), nil)
	for _, command := range [][]string{{"mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal", image}, {"mount", "-o", "loop,nodelalloc", image, dir}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			t.Skipf("needs root, mke2fs and a loop device: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { is(t, "umount", syscall.Unmount(dir, syscall.MNT_DETACH), nil) })
	path, filler := filepath.Join(dir, "registry.db"), filepath.Join(dir, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	is(t, "filler", f.Close(), nil)
	_, err = Open(t.Context(), path, Config{})
	is(t, "Open", err, site.ErrFull)
	is(t, "Remove", os.Remove(filler), nil)
	r, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	is(t, "Close", r.Close(), nil)
}

// newSmallDatabase returns the URL of an empty database in a directory.
func newSmallDatabase(t *testing.T, dir string) string {
	newDatabase(t) // starts the server
	name := fmt.Sprintf("small%d", databases.Add(1))
	space := filepath.Join(dir, "space")
	is(t, "mkdir", os.Mkdir(space, 0o700), nil)
	if os.Getuid() == 0 {
		is(t, "chown", os.Chown(space, postgres.UID, postgres.UID), nil)
	}
	is(t, "CREATE TABLESPACE", server.Exec("CREATE TABLESPACE "+name+" LOCATION '"+space+"'"), nil)
	is(t, "CREATE DATABASE", server.Exec("CREATE DATABASE "+name+" TABLESPACE "+name), nil)
	t.Cleanup(func() {
		is(t, "DROP DATABASE", server.Exec("DROP DATABASE "+name+" WITH (FORCE)"), nil)
		is(t, "DROP TABLESPACE", server.Exec("DROP TABLESPACE "+name), nil)
	})
	return server.URL(name)
}

// fullDisk fills the disk of dir with the registry of dsn, makes room, and fills it again.
func fullDisk(t *testing.T, dir, dsn string) *Registry {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	is(t, "filler", os.WriteFile(filler, make([]byte, 1<<20), 0o600), nil)
	failures := map[string]int{}
	r, err := Open(t.Context(), dsn, Config{Failed: func(kind string) { failures[kind]++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { is(t, "Close", r.Close(), nil) })
	run := newRun(t, r, 1)
	stored := 0
	put := func() error {
		o := csv(run, fmt.Sprintf("%06d", stored), fmt.Sprint(stored))
		_, err := r.Runs.PutObject(t.Context(), o, incompressible(stored), nil)
		if err == nil {
			stored++
		}
		return err
	}
	fill := func() {
		t.Helper()
		for range 10_000 {
			if err := put(); err != nil {
				is(t, "full", err, site.ErrFull)
				return
			}
		}
		t.Fatal("the disk never was full")
	}
	check := func() {
		t.Helper()
		objects, err := r.Objects.OfRun(t.Context(), run.ID)
		is(t, "Objects", err, nil)
		if len(objects) != stored {
			t.Fatalf("%d objects, %d were acknowledged", len(objects), stored)
		}
		for i, o := range objects {
			body, err := r.Objects.Body(t.Context(), run.ID, o.Name)
			isSame := err == nil && string(body) == string(incompressible(i))
			if !isSame {
				t.Fatalf("object %s: %d bytes, %v", o.Name, len(body), err)
			}
		}
		checkUsage(t, r)
	}
	fill()
	if failures["full"] != 1 || len(failures) != 1 {
		t.Errorf("the errors by kind are %v: want one, full", failures)
	}
	full := stored
	for range 20 {
		if err := put(); err != nil && !errors.Is(err, site.ErrFull) {
			t.Fatal(err)
		}
	}
	check()
	is(t, "make room", os.Remove(filler), nil)
	is(t, "with room", put(), nil)
	fill()
	if stored < full+20 {
		t.Errorf("%d objects before, %d after there was room of 1 MiB", full, stored)
	}
	check()
	return r
}

// incompressible returns 8 KiB that PostgreSQL does not compress.
func incompressible(n int) []byte {
	b := make([]byte, 8<<10)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}
