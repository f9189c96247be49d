// Package postgres starts a real PostgreSQL server for tests of code that uses one. It listens on a Unix
// socket in its own directory.
package postgres

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Server is a PostgreSQL server. It ends when its parent process dies.
type Server struct {
	dir   string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the program has ended
}

// Missing returns why a test cannot use PostgreSQL, or "": make test does without it.
func Missing() string {
	if testing.Short() {
		return "in make check: PostgreSQL"
	}
	if _, err := exec.LookPath(installed("postgres")); err != nil {
		return "needs PostgreSQL, the Debian package postgresql"
	}
	return ""
}

// Need skips a test that cannot use PostgreSQL.
func Need(t testing.TB) {
	t.Helper()
	if why := Missing(); why != "" {
		t.Skip(why)
	}
}

// Start starts a server with settings, for example "fsync=off", and an empty database cluster. It
// needs the Debian package postgresql. PostgreSQL refuses to run as root: then it runs as UID.
func Start(settings ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "rt-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	data := filepath.Join(dir, "data")
	if os.Getuid() == 0 {
		if err := os.Chown(dir, UID, UID); err != nil {
			return nil, err
		}
	}
	out, err := s.command("initdb", "--no-sync", "-A", "trust", "-U", "rt", "-E", "UTF8", "--locale=C.UTF-8", data).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL (Debian package postgresql): initdb: %w\n%s", err, out)
	}
	s.args = []string{"-D", data, "-k", dir, "-c", "listen_addresses="}
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
	return s, s.Restart()
}

// URL returns the URL of a database; "postgres" always exists.
func (s *Server) URL(database string) string {
	return "postgres://rt@/" + database + "?host=" + s.dir
}

// Exec executes a statement in the database "postgres".
func (s *Server) Exec(query string) error {
	conn, err := sql.Open("pgx", s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Exec(query)
	return err
}

// Restart starts the program after Kill and waits until it answers. It starts as soon as the processes of the
// killed server have ended.
func (s *Server) Restart() error {
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
		for s.Exec("SELECT 1") != nil {
			select {
			case <-ended:
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
		if s.Exec("SELECT 1") == nil {
			s.ended = ended
			return nil
		}
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("PostgreSQL does not start:\n%s", text)
}

// UID is the user and the group of the server if the caller is root.
const UID = 65534

// installed returns the path of the newest version of a program of PostgreSQL, or its name.
func installed(program string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(found) == 0 {
		return program
	}
	return slices.Max(found)
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(installed(program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: UID, Gid: UID}
	}
	return cmd
}

// Close ends the server and removes its files.
func (s *Server) Close() error {
	s.end(syscall.SIGQUIT)
	return os.RemoveAll(s.dir)
}

// Kill kills the server.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal) // it may have ended
	<-s.ended
}
