package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Coordinators returns the accounts that a user coordinates.
type Coordinators interface {
	AccountsOf(ctx context.Context, user string) (accounts []string, err error)
}

// accounts are the coordinated accounts by user.
type accounts map[string][]string

func (a accounts) addUsers(account string, users []string) error {
	for _, user := range users {
		user = strings.TrimSpace(user)
		if !isName(user) || !isName(account) {
			return errors.New("an account or a coordinator has no valid name")
		}
		if !slices.Contains(a[user], account) {
			a[user] = append(a[user], account)
		}
	}
	return nil
}

// File has the coordinators of a file. The zero value has none.
type File struct{ of atomic.Pointer[accounts] }

// parseCoordinators returns the accounts by user of a file with lines such as "physics: alice,bob".
func parseCoordinators(file []byte) (accounts, error) {
	all := accounts{}
	n := 0
	for line := range bytes.Lines(file) {
		n++
		text := strings.TrimSpace(string(line))
		isComment := text == "" || text[0] == '#'
		if isComment {
			continue
		}
		account, users, found := strings.Cut(text, ":")
		if !found {
			return nil, fmt.Errorf("line %d: it is not of the form \"account: user,user\"", n)
		}
		if err := all.addUsers(strings.TrimSpace(account), strings.Split(users, ",")); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return all, nil
}

// Set replaces the content of the file. After an error the previous content stays valid.
func (f *File) Set(text []byte) error {
	all, err := parseCoordinators(text)
	if err != nil {
		return err
	}
	f.of.Store(&all)
	return nil
}

// AccountsOf implements Coordinators.
func (f *File) AccountsOf(_ context.Context, user string) ([]string, error) {
	all := f.of.Load()
	if all == nil {
		return nil, nil
	}
	return (*all)[user], nil
}

// The answer of sacctmgr stays valid for sacctmgrAge. If it fails, it is run again after sacctmgrRetry, and the
// last answer stays valid for sacctmgrStale.
const (
	sacctmgrStale = time.Hour
	sacctmgrAge   = 5 * time.Minute
	sacctmgrRetry = time.Minute
	sacctmgrTime  = 10 * time.Second
	sacctmgrMax   = 16 << 20 // bytes of its output
)

// Sacctmgr asks Slurm's accounting for the coordinators.
type Sacctmgr struct {
	program string

	turn  chan struct{} // held while the program runs
	mu    sync.Mutex
	all   accounts
	err   error     // why there are none
	read  time.Time // when sacctmgr printed them
	until time.Time // when it is run again
}

// NewSacctmgr returns the coordinators of the cluster of a program sacctmgr.
func NewSacctmgr(program string) *Sacctmgr {
	return &Sacctmgr{program: program, turn: make(chan struct{}, 1)}
}

// AccountsOf implements Coordinators.
func (s *Sacctmgr) AccountsOf(ctx context.Context, user string) ([]string, error) {
	if all, ok, err := s.known(); ok {
		return all[user], err
	}
	ctx, cancel := context.WithTimeout(ctx, sacctmgrTime)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, errTimeout
	}
	if all, ok, err := s.known(); ok { // another request has run it
		return all[user], err
	}
	// Not with the context of the request: a client that leaves would take the answer from the others.
	run, stop := context.WithTimeout(context.WithoutCancel(ctx), sacctmgrTime)
	defer stop()
	all, err := s.run(run)
	s.keep(all, err)
	all, _, err = s.known()
	return all[user], err
}

// keep stores an answer. After an error the last one stays, if it is not too old.
func (s *Sacctmgr) keep(all accounts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err == nil {
		s.all, s.err, s.read, s.until = all, nil, now, now.Add(sacctmgrAge)
		return
	}
	s.until = now.Add(sacctmgrRetry)
	if now.Sub(s.read) > sacctmgrStale {
		s.all, s.err = nil, err
	}
}

// known returns the last answer, and whether it is not yet time for the next one.
func (s *Sacctmgr) known() (all accounts, isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, time.Now().Before(s.until), s.err
}

func (s *Sacctmgr) run(ctx context.Context) (accounts, error) {
	cmd := exec.CommandContext(ctx, s.program, "-nP", "show", "account", "withcoord", "format=account,coordinators")
	stdout, stderr := limited{max: sacctmgrMax}, limited{max: 1 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", s.program, err, strings.TrimSpace(stderr.String()))
	}
	if stdout.Len() == sacctmgrMax {
		return nil, fmt.Errorf("run %s: it prints more than %d bytes", s.program, sacctmgrMax)
	}
	return parseSacctmgr(stdout.String()), nil
}

// parseSacctmgr returns the accounts by user. A coordinator can make accounts, and sacctmgr prints their names
// as they are: a name with line feeds looks like further lines. A line that is malformed counts for nothing, and an
// account with several lines has no coordinators.
func parseSacctmgr(output string) accounts {
	coordinators := map[string][]string{}
	lines := map[string]int{}
	for line := range strings.Lines(output) {
		account, users, found := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		if !found {
			continue
		}
		lines[account]++
		coordinators[account] = strings.Split(users, ",")
	}
	all := accounts{}
	for _, account := range slices.Sorted(maps.Keys(coordinators)) {
		for _, user := range coordinators[account] {
			isNamed := isName(user) && isName(account) && !strings.Contains(user, "|")
			if isNamed && lines[account] == 1 {
				all[user] = append(all[user], account)
			}
		}
	}
	return all
}
