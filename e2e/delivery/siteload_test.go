//go:build e2e && s3

package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/drain"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// node drains the spool directory of one simulated node in this process until its run is delivered.
// Each attempt is a drain of its own, which reads the ledger.
func node(ctx context.Context, dir, url string, o upload.DrainOptions) error {
	d := &drain.Directory{
		Dir: dir, StateDir: dir, Retain: time.Hour,
		Access: func() (spool.Access, error) { return spool.Access{Owner: true}, nil },
	}
	web, err := upload.NewHTTPClient(nil)
	if err != nil {
		return err
	}
	defer web.CloseIdleConnections()
	client, err := sentinel.New(sentinel.Config{HTTP: web, Endpoint: url, Token: token, Dialect: upload.DialectSpec})
	if err != nil {
		return err
	}
	store, err := s3.New(s3.Config{HTTP: web, Endpoint: url})
	if err != nil {
		return err
	}
	for {
		done, err := d.Drain(ctx, client, store, o)
		isStuck := err != nil && !errors.Is(err, upload.ErrTemporary)
		switch {
		case done.Delivered == 1:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%s is not delivered: %w, %+v", dir, ctx.Err(), done.Problems)
		case isStuck:
			return fmt.Errorf("%s: %w, %+v", dir, err, done.Problems)
		}
		if err := pause(ctx, rand.N(100*time.Millisecond)); err != nil {
			return fmt.Errorf("%s is not delivered: %w, %+v", dir, err, done.Problems)
		}
	}
}

// process drains a spool directory with rt-spool until its run is delivered.
func process(ctx context.Context, s *site, jitter time.Duration) error {
	for {
		out, err := s.rtSpool("drain", "--jitter", jitter.String()).CombinedOutput()
		failed, isExit := errors.AsType[*exec.ExitError](err)
		isTemporary := isExit && failed.ExitCode() == 75
		if !isTemporary {
			return err
		}
		jitter = 0
		if err := pause(ctx, rand.N(100*time.Millisecond)); err != nil {
			return fmt.Errorf("%s is not delivered: %w\n%s", s.dir, err, out)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// spoolOf configures rt-spool to drain a spool directory to an endpoint.
func (s *site) spoolOf(t *testing.T, dir, endpoint string) {
	t.Helper()
	text := fmt.Sprintf("[spool]\ndir = %q\n[tracker]\nstate_dir = %[1]q\n[sentinel]\nendpoint = %q\ns3_endpoint = %[2]q\ntoken_file = %q\n[drain]\nsacct = \"off\"\n",
		dir, endpoint, s.path("token"))
	if err := os.WriteFile(s.path("rt.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run makes the spool directory of a node with one run. Every twentieth is large.
func (s *site) run(t *testing.T, job uint64, random *rand.Rand) (dir string, one spooled) {
	t.Helper()
	dir = filepath.Join(s.path("spool"), strconv.FormatUint(job, 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	snapshots := random.IntN(60)
	if job%20 == 0 {
		snapshots = largeRun
	}
	return dir, put(t, dir, job, snapshots, random)
}

// serveLogged starts a receiver that logs to a file. If the test fails, it prints the end of the file.
func serveLogged(t *testing.T, s *site) *receiver {
	t.Helper()
	log, err := os.Create(s.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		text, err := os.ReadFile(s.path("log"))
		if err := errors.Join(err, log.Close()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log of a receiver ends with\n%s", text[max(0, len(text)-4000):])
		}
	})
	return serveTo(t, s, log)
}

// limit is the longest duration of a test, with which one that hangs ends.
const limit = 30 * time.Minute

// TestSiteKilled delivers the runs of many nodes to three receivers with one PostgreSQL and one MinIO
// behind a balancer. It kills receivers, PostgreSQL and MinIO at random: each run arrives once, and
// nothing that was acknowledged is lost. RT_NODES is the number of nodes.
func TestSiteKilled(t *testing.T) {
	const processes, spread = 20, time.Minute
	// SQLite's memory in a process is limited: at most so many nodes of this process drain at a time.
	atOnce := make(chan struct{}, 64)
	nodes := envNumber(t, "RT_NODES", 2000)
	random := newRandom(t)
	c := newCentral(t)
	s := newSite(t)
	inMemory(t, s)
	var receivers []*receiver
	for range 3 {
		own := s.another(t)
		c.use(t, own)
		receivers = append(receivers, serveLogged(t, own))
	}
	b := newBalancer(t, receivers...)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var sent []spooled
	var dirs []string
	for n := range nodes {
		dir, one := s.run(t, uint64(n+1), random)
		sent, dirs = append(sent, one), append(dirs, dir)
	}
	var work sync.WaitGroup
	began := time.Now()
	for n, dir := range dirs {
		if n < processes {
			own := s.another(t)
			own.spoolOf(t, dir, b.URL)
			work.Go(func() {
				if err := process(ctx, own, spread); err != nil {
					t.Error(err)
				}
			})
			continue
		}
		jitter := time.Duration(random.Int64N(int64(spread)))
		work.Go(func() {
			err := pause(ctx, jitter)
			atOnce <- struct{}{}
			if err == nil {
				err = node(ctx, dir, b.URL, upload.DrainOptions{Tries: 2})
			}
			<-atOnce
			if err != nil {
				t.Error(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	kills := killAll(t, ended, c, receivers, random)
	took := time.Since(began)
	for _, r := range receivers { // everything must be stored, not only known to a process
		r.stop(t, syscall.SIGKILL)
	}
	c.restart(t, true, true)
	for _, r := range receivers {
		r.start(t)
	}
	st := openStores(t, s, c)
	large := st.check(t, &b.journal)
	got := arrived(t, receivers[0], nil, sent)
	st.sameRecords(t, receivers[1], sent)
	receivers[2].site.verify(t)
	t.Logf("%d nodes in %s: killed receivers %d times, PostgreSQL %d times, MinIO %d times; acknowledged: %d registrations, %d objects (%d bytes), %d finishes; answers by status: %v; "+
		"%d unused registrations, %d unconfirmed finishes, %d objects in MinIO", nodes, took.Round(time.Second), kills[0], kills[1], kills[2],
		len(b.runs), len(b.objects), b.bytes, len(b.finishes), b.answers, got.unused, got.unconfirmed, large)
	if kills[0] < 10 || kills[1] < 1 || kills[2] < 1 {
		t.Errorf("too few kills: %v", kills)
	}
}

// killAll kills receivers, PostgreSQL and MinIO at random until all nodes have ended. It returns the
// number of kills of each.
func killAll(t *testing.T, ended <-chan struct{}, c *central, receivers []*receiver, random *rand.Rand) (kills [3]int) {
	t.Helper()
	for n := 1; ; n++ {
		select {
		case <-ended:
			return kills
		case <-time.After(time.Duration(random.Int64N(int64(time.Second)))):
		}
		killsDatabase, killsObjects := n%12 == 6, n%12 == 0
		var down []*receiver
		for _, r := range receivers {
			if random.IntN(3) == 0 {
				down = append(down, r)
			}
		}
		for _, r := range down {
			r.stop(t, syscall.SIGKILL)
			kills[0]++
		}
		c.restart(t, killsDatabase, killsObjects)
		if killsDatabase {
			kills[1]++
		}
		if killsObjects {
			kills[2]++
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		for _, r := range down {
			r.start(t)
		}
	}
}

// restart kills servers and starts them again.
func (c *central) restart(t *testing.T, database, objects bool) {
	t.Helper()
	if database {
		c.database.Kill()
		if err := c.database.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	if objects {
		c.objects.Kill()
		if err := c.objects.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSiteFilesKilled kills a receiver with SQLite and a directory at random while nodes deliver runs. Each run
// arrives once, and no acknowledged run is lost. RT_KILLS is the number of kills.
func TestSiteFilesKilled(t *testing.T) {
	const workers, perKill = 16, 12
	kills := envNumber(t, "RT_KILLS", 300)
	random := newRandom(t)
	s := newSite(t)
	inMemory(t, s)
	(*central)(nil).use(t, s)
	r := serveLogged(t, s)
	b := newBalancer(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	waiting := make(chan string, workers*perKill)
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for dir := range waiting {
				if err := node(ctx, dir, b.URL, upload.DrainOptions{Tries: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var sent []spooled
	began := time.Now()
	for range kills {
		for n := 0; n < perKill && len(waiting) < cap(waiting); n++ {
			dir, one := s.run(t, uint64(len(sent)+1), random)
			sent = append(sent, one)
			waiting <- dir
		}
		awaitMore(t, &b.finished)
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
		r.stop(t, syscall.SIGKILL)
		r.start(t)
	}
	close(waiting)
	work.Wait()
	took := time.Since(began)
	r.stop(t, syscall.SIGKILL)
	st := openStores(t, s, nil)
	large := st.check(t, &b.journal)
	r.start(t)
	got := arrived(t, r, nil, sent)
	st.sameRecords(t, r, sent)
	s.verify(t)
	t.Logf("%d kills in %s; acknowledged: %d registrations, %d objects (%d bytes), %d finishes; answers by status: %v; %d runs, %d unused registrations, %d unconfirmed finishes, %d objects in files",
		kills, took.Round(time.Second), len(b.runs), len(b.objects), b.bytes, len(b.finishes), b.answers, len(sent), got.unused, got.unconfirmed, large)
	if b.finished.Load() < int64(kills) {
		t.Error("too little was acknowledged between the kills")
	}
}
