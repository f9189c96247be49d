package registry

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
)

// victimFile is the database that a copy of the test binary changes until it is killed.
const victimFile = "RT_REGISTRY_TEST_VICTIM_FILE"

const (
	clients = 8  // of a victim, at the same time
	steps   = 10 // of a run: created, objects 1 to 7, record, finish
)

// victim changes a database as several clients do. A client takes one step after the other, from
// the step that the database is at. The victim prints the number of the client and of each step
// that is acknowledged.
func victim(path string) error {
	ctx := context.Background()
	r, err := Open(ctx, path, Config{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for client := range clients {
		first, err := stepsOf(ctx, r, client)
		if err != nil {
			return err
		}
		go func() {
			for n := first; ; n++ {
				if err := step(ctx, r, client, n); err != nil {
					failed <- err
					return
				}
				fmt.Printf("%d %d\n", client, n)
			}
		}()
	}
	return <-failed
}

func victimRun(client, n int) string { return fmt.Sprintf("20260301t120000-%d-%06d", client, n/steps) }

// bodyOf returns the bytes of the object of a step.
func bodyOf(client, n int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%d %d.", client, n)), 1+n%7*100)
}

// step takes step n of a client.
func step(ctx context.Context, r *Registry, client, n int) error {
	id := victimRun(client, n)
	body := bodyOf(client, n)
	o := site.Object{RunID: id, Name: strconv.Itoa(n % steps), Class: site.ClassCSV, Bytes: int64(len(body)), SHA256: strconv.Itoa(n)}
	switch n % steps {
	case 0:
		return r.Runs.Create(ctx, site.StoredRun{ID: id, Owner: "owner", Created: start, Metadata: body})
	case 8:
		record := job(uint64(client), n)
		o.Name, o.Class = site.RecordName, site.ClassRecord
		_, err := r.Runs.PutObject(ctx, o, body, &record)
		return err
	case 9:
		_, err := r.Runs.Finish(ctx, id, site.Finish{DataSource: "s3", Keys: []string{"1", "7"}, CSVSHA256: strconv.Itoa(n)}, nil, nil)
		return err
	}
	_, err := r.Runs.PutObject(ctx, o, body, nil)
	return err
}

// stepsOf returns how many steps of a client the database has. It is an error if one is missing
// before the last, or has other data.
func stepsOf(ctx context.Context, r *Registry, client int) (n int, err error) {
	for {
		run, err := r.Runs.Get(ctx, victimRun(client, n))
		if err != nil {
			return n, nil //nolint:nilerr // there is no such run
		}
		objects, err := r.Objects.OfRun(ctx, run.ID)
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(run.Metadata, bodyOf(client, n)) {
			return 0, fmt.Errorf("run %s has other metadata", run.ID)
		}
		n++
		for _, o := range objects {
			name := strconv.Itoa(n % steps)
			if n%steps == 8 {
				name = site.RecordName
			}
			body, err := r.Objects.Body(ctx, run.ID, o.Name)
			isSame := o.Name == name && o.SHA256 == strconv.Itoa(n) && bytes.Equal(body, bodyOf(client, n))
			if err != nil || !isSame {
				return 0, fmt.Errorf("object %s is at the place of step %d of client %d: %w", o.Name, n, client, err)
			}
			n++
		}
		switch hasRecord := n%steps == 9; {
		case run.Finish != nil && hasRecord:
			n++
		case run.Finish != nil || (run.Record != nil) != hasRecord:
			return 0, fmt.Errorf("after step %d of client %d: finish %v, record %v", n, client, run.Finish, run.Record)
		default:
			return n, nil
		}
	}
}

// After a kill at any moment the database is whole, and has each acknowledged change and all
// changes before it.
func TestKilledSQLiteKeepsWhatItAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: a service is killed 100 times")
	}
	const kills, atOnce = 100, 4
	base := t.TempDir()
	t.Run("kills", func(t *testing.T) {
		for worker := range atOnce {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(base, strconv.Itoa(worker), "registry.db")
				rng := rand.New(rand.NewPCG(5, uint64(worker)))
				acknowledged := make([]int, clients)
				for range kills / atOnce {
					killAfter(t, path, 1+rng.IntN(200), time.Duration(rng.IntN(3000))*time.Microsecond, acknowledged)
					examine(t, path, acknowledged)
				}
			})
		}
	})
}

// killAfter starts a victim, waits for some of its lines and a little more, and kills it. It stores
// the number of acknowledged steps of each client.
func killAfter(t *testing.T, path string, lines int, after time.Duration, acknowledged []int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), victimFile+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var killed sync.Once
	kill := func() { time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) }
	count := 0
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		var client, n int
		if _, err := fmt.Sscanf(scanner.Text(), "%d %d", &client, &n); err != nil {
			t.Fatalf("%q: %v", scanner.Text(), err)
		}
		acknowledged[client] = n + 1
		count++
		if count >= lines {
			killed.Do(kill)
		}
	}
	_ = cmd.Wait() // it was killed
	if count < lines {
		t.Fatalf("the victim ended after %d lines: %s", count, stderr.String())
	}
}

func examine(t *testing.T, path string, acknowledged []int) {
	t.Helper()
	r, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkIntegrity(t, r)
	checkSteps(t, r, acknowledged)
}

func checkSteps(t *testing.T, r *Registry, acknowledged []int) {
	t.Helper()
	checkUsage(t, r)
	for client, want := range acknowledged {
		n, err := stepsOf(t.Context(), r, client)
		if err != nil {
			t.Fatal(err)
		}
		isRight := n == want || n == want+1 // a client has one change in progress
		if !isRight {
			t.Fatalf("client %d: %d steps are stored, %d were acknowledged", client, n, want)
		}
		acknowledged[client] = n // the next victim goes on there
	}
}

func checkIntegrity(t *testing.T, r *Registry) {
	t.Helper()
	var text string
	if err := r.db.read.QueryRow("PRAGMA integrity_check").Scan(&text); err != nil || text != "ok" {
		t.Fatalf("integrity check: %s, %v", text, err)
	}
}

// The registry loses no acknowledged change if PostgreSQL is killed, and goes on when it is back.
func TestKilledPostgresKeepsWhatItAcknowledged(t *testing.T) {
	postgres.Need(t)
	const kills = 5
	s, err := postgres.Start() // it syncs
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := Open(t.Context(), s.URL("postgres"), Config{Conns: clients})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	acknowledged := make([]int, clients)
	rng := rand.New(rand.NewPCG(7, 7))
	for range kills {
		killUnderLoad(t, s, r, 1+rng.Int64N(300), acknowledged)
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		checkSteps(t, r, acknowledged)
	}
}

// killUnderLoad kills the server after some steps of the clients.
func killUnderLoad(t *testing.T, s *postgres.Server, r *Registry, after int64, acknowledged []int) {
	t.Helper()
	enough, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stepped atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			defer cancel() // the server was killed, or a step failed before that
			for step(t.Context(), r, client, acknowledged[client]) == nil {
				acknowledged[client]++
				if stepped.Add(1) == after {
					cancel()
				}
			}
		})
	}
	<-enough.Done()
	s.Kill()
	all.Wait()
	if stepped.Load() < after {
		t.Fatalf("a step failed before the kill, after %d steps", stepped.Load())
	}
}
