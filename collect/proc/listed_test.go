package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

func TestList(t *testing.T) {
	root := t.TempDir()
	write := func(pid, name, text string) {
		path := filepath.Join(root, pid, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const stat = " 7 1 1 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 3 0 5000 1000 25 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"
	write("12", "stat", "12 (a) b (c) S"+stat)
	write("12", "status", "Name:\ta\nUid:\t1001\t0\t0\t0\nVmData:\t     100 kB\nVmStk:\t      32 kB\nRssAnon:\t      8 kB\n")
	write("12", "cgroup", "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n")
	write("13", "stat", "13 (kworker/0:1) I"+stat)
	write("13", "status", "Name:\tkworker\nUid:\t0\t0\t0\t0\n")
	write("14", "stat", "14 (ended) S"+stat) // it ended before its status was read
	write("15", "stat", "nonsense")
	write("15", "status", "Uid:\t1\n")
	write("self", "stat", "no number")

	var got []Listed
	if err := List(NewFS(root, "/sys"), func(p *Listed) { got = append(got, *p) }); err != nil {
		t.Fatal(err)
	}
	page := uint64(os.Getpagesize())
	want := map[int]Listed{
		12: {
			PID: 12, PPID: 7, PGRP: 1, Comm: "a) b (c", State: 'S', UID: rt.Some[uint64](1001), Start: 5000, OwnTicks: 30, ChildTicks: 70, RSS: 25 * page,
			DataStack: rt.Some[uint64](132 << 10), RSSAnon: rt.Some[uint64](8 << 10), Cgroup: "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0",
		},
		13: {
			PID: 13, PPID: 7, PGRP: 1, Comm: "kworker/0:1", State: 'I', UID: rt.Some[uint64](0), Start: 5000, OwnTicks: 30, ChildTicks: 70, RSS: 25 * page,
		},
	}
	found := map[int]Listed{}
	for _, p := range got {
		found[p.PID] = p
	}
	if d := cmp.Diff(want, found, cmp.AllowUnexported(rt.Opt[uint64]{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := List(NewFS(filepath.Join(root, "none"), "/sys"), func(*Listed) {}); err == nil {
		t.Error("no error without a /proc")
	}
}

func TestListThisMachine(t *testing.T) {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it may have ended
		_ = child.Wait()
	})
	var me, it *Listed
	err := List(NewFS("/proc", "/sys"), func(p *Listed) {
		switch p.PID {
		case os.Getpid():
			me = &[]Listed{*p}[0]
		case child.Process.Pid:
			it = &[]Listed{*p}[0]
		}
	})
	if err != nil || me == nil || it == nil {
		t.Fatalf("%v, %+v, %+v", err, me, it)
	}
	if it.PPID != me.PID || me.UID != rt.Some(uint64(os.Getuid())) || me.RSSAnon.Or(0) == 0 || me.DataStack.Or(0) == 0 || it.Start < me.Start {
		t.Errorf("%+v is the parent of %+v", me, it)
	}
}

func FuzzListed(f *testing.F) {
	for _, name := range []string{"stat", "status"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("VmData: 18446744073709551615 kB\nVmStk: 1 kB\nUid: 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Listed
		parseStatus(b, &p)
		if v, ok := p.DataStack.Get(); ok && v%1024 != 0 {
			t.Errorf("%q has %d bytes of data", b, v)
		}
		if stat, err := parsePidStat(b); err == nil && !utf8.ValidString(keep("", stat.Comm)) {
			t.Errorf("%q is no text", stat.Comm)
		}
	})
}
