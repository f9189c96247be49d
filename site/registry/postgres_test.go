package registry

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// server is a PostgreSQL server of this test binary. It listens on a Unix socket in its directory.
type server struct {
	dir string
	cmd *exec.Cmd
}

var (
	postgres  *server // started by the first test that needs it
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimFile); path != "" {
		fmt.Fprintln(os.Stderr, victim(path))
		os.Exit(1)
	}
	code := m.Run()
	if postgres != nil {
		postgres.stop()
	}
	os.Exit(code)
}

// newDatabase returns the URL of an empty database. Its server does not sync: these tests do not
// crash the machine.
func newDatabase(t testing.TB) string {
	t.Helper()
	if postgres == nil {
		var err error
		postgres, err = startServer("fsync=off")
		if err != nil {
			t.Fatalf("start PostgreSQL (Debian package postgresql): %v", err)
		}
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := postgres.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return postgres.url(name)
}

func (s *server) url(database string) string {
	return "postgres://rt@/" + database + "?host=" + s.dir
}

func (s *server) exec(query string) error {
	conn, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Exec(query)
	return err
}

// startServer starts PostgreSQL with settings. PostgreSQL refuses to run as root: then it runs as
// the user with the id 65534.
func startServer(settings ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "rt-pg")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	data := filepath.Join(dir, "data")
	if os.Getuid() == 0 {
		if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
			return nil, err
		}
	}
	out, err := s.command("initdb", "--no-sync", "-A", "trust", "-U", "rt", "-E", "UTF8", "--locale=C.UTF-8", data).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	args := []string{"-D", data, "-k", dir, "-c", "listen_addresses="}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	s.cmd = s.command("postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := s.exec("SELECT 1")
		if err == nil {
			return s, nil
		}
		if time.Since(begin) > time.Minute {
			s.stop()
			return nil, err
		}
	}
}

const unprivileged = 65534

func (s *server) command(program string, args ...string) *exec.Cmd {
	path := program
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program); len(found) > 0 {
		path = slices.Max(found)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return cmd
}

// stop ends the server and removes its files.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
