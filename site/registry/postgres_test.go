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
	dir  string
	args []string
	cmd  *exec.Cmd

	ended chan struct{} // closed when the program has ended
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
	dir, err := os.MkdirTemp("", "rt-pg-")
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
	s.args = []string{"-D", data, "-k", dir, "-c", "listen_addresses="}
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
	return s, s.start()
}

// start starts the program and waits until it answers. After a kill it starts again as soon as the
// processes of the killed server have ended.
func (s *server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		s.cmd = s.command("postgres", s.args...)
		s.cmd.Stdout, s.cmd.Stderr = log, log
		if err := s.cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			_ = s.cmd.Wait()
			close(ended)
		}()
		for s.exec("SELECT 1") != nil {
			select {
			case <-ended:
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
		if s.exec("SELECT 1") == nil {
			s.ended = ended
			return nil
		}
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("it does not start:\n%s", text)
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
	s.kill(syscall.SIGQUIT)
	_ = os.RemoveAll(s.dir)
}

// kill ends the server with a signal.
func (s *server) kill(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal)
	<-s.ended
}
