package environ

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func TestExitFromEpilog(t *testing.T) {
	tests := []struct {
		name                  string
		raw, code2, derived   string
		code, signal, highest rt.Opt[int64]
		outcome               rt.Outcome
	}{
		{"exit 7", "1792", "7:0", "0", rt.Some[int64](7), rt.Some[int64](0), rt.Some[int64](0), rt.OutcomeFailed},
		{"signal 9", "9", "0:9", "0", rt.Some[int64](0), rt.Some[int64](9), rt.Some[int64](0), rt.OutcomeFailed},
		{"out of memory", "253", "0:125", "0", rt.Some[int64](0), rt.Some[int64](125), rt.Some[int64](0), rt.OutcomeOOM},
		{"out of memory, old", "253", "", "", rt.Some[int64](0), rt.Some[int64](125), rt.None[int64](), rt.OutcomeOOM},
		{"zero", "0", "0:0", "2304", rt.Some[int64](0), rt.Some[int64](0), rt.Some[int64](9), rt.OutcomeUnknown},
		{"a step by signal 11", "0", "0:0", "139", rt.Some[int64](0), rt.Some[int64](0), rt.Some[int64](139), rt.OutcomeUnknown},
		{"raw only", "65280", "", "", rt.Some[int64](255), rt.Some[int64](0), rt.None[int64](), rt.OutcomeFailed},
		{"no value", "4294967294", "", "4294967294", rt.None[int64](), rt.None[int64](), rt.None[int64](), rt.OutcomeUnknown},
		{"garbage", "x", "1:2:3", "y", rt.None[int64](), rt.None[int64](), rt.None[int64](), rt.OutcomeUnknown},
		{"out of range", "", "256:0", "", rt.None[int64](), rt.None[int64](), rt.None[int64](), rt.OutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := Env{"SLURM_JOB_ID": "12", "SLURM_JOB_EXIT_CODE": tt.raw, "SLURM_JOB_EXIT_CODE2": tt.code2, "SLURM_JOB_DERIVED_EC": tt.derived}
			got, err := ExitFromEpilog(env, began)
			if err != nil {
				t.Fatal(err)
			}
			want := rt.Exit{Code: tt.code, Signal: tt.signal, Derived: tt.highest, Outcome: tt.outcome, Source: "epilog", Time: began}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	if _, err := ExitFromEpilog(Env{"PATH": "/bin"}, began); !errors.Is(err, ErrNoJob) {
		t.Errorf("outside a hook: %v", err)
	}
}

func TestDecide(t *testing.T) {
	epilog := func(outcome rt.Outcome, code, signal int64) rt.Exit {
		return rt.Exit{Code: rt.Some(code), Signal: rt.Some(signal), Outcome: outcome, Source: "epilog"}
	}
	zero := epilog(rt.OutcomeUnknown, 0, 0)
	exited := func(code int) rt.Opt[syscall.WaitStatus] { return rt.Some(syscall.WaitStatus(code << 8)) }
	killed := func(s syscall.Signal) rt.Opt[syscall.WaitStatus] { return rt.Some(syscall.WaitStatus(s)) }
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	tests := []struct {
		name    string
		exit    rt.Exit
		seen    Evidence
		outcome rt.Outcome
		source  string
	}{
		{"failed stays", epilog(rt.OutcomeFailed, 7, 0), Evidence{Batch: exited(0)}, rt.OutcomeFailed, "epilog"},
		{"oom stays", epilog(rt.OutcomeOOM, 0, 125), Evidence{}, rt.OutcomeOOM, "epilog"},
		{"killed, with oom kills", epilog(rt.OutcomeFailed, 0, 9), Evidence{OOMKills: 1}, rt.OutcomeOOM, "kernel"},
		{"exit 137, with oom kills", epilog(rt.OutcomeFailed, 137, 0), Evidence{OOMKills: 2}, rt.OutcomeOOM, "kernel"},
		{"exit 1, a child was oom killed", epilog(rt.OutcomeFailed, 1, 0), Evidence{OOMKills: 1}, rt.OutcomeFailed, "epilog"},
		{"killed, without", epilog(rt.OutcomeFailed, 0, 9), Evidence{}, rt.OutcomeFailed, "epilog"},
		{"0:0 and nothing else", zero, Evidence{}, rt.OutcomeUnknown, "epilog"},
		{"0:0, script ended well", zero, Evidence{Batch: exited(0)}, rt.OutcomeFinished, "kernel"},
		{"0:0, script was terminated, limit not known", zero, Evidence{Batch: killed(syscall.SIGTERM), End: at(60)}, rt.OutcomeTerminated, "kernel"},
		{"0:0, script caught the signal, limit not known", zero, Evidence{Batch: exited(143), End: at(60)}, rt.OutcomeTerminated, "kernel"},
		{"0:0, script was terminated, end not known", zero, Evidence{Batch: killed(syscall.SIGTERM), Limit: at(60)}, rt.OutcomeTerminated, "kernel"},
		{"0:0, script caught the signal before the limit", zero, Evidence{Batch: exited(143), End: at(59), Limit: at(60)}, rt.OutcomeCancelled, "kernel"},
		{"0:0, terminated at the limit", zero, Evidence{Batch: killed(syscall.SIGTERM), End: at(60), Limit: at(60)}, rt.OutcomeTimeout, "kernel"},
		{"0:0, terminated before the limit", zero, Evidence{Batch: killed(syscall.SIGTERM), End: at(59), Limit: at(60)}, rt.OutcomeCancelled, "kernel"},
		{"0:0, no script here, at the limit", zero, Evidence{End: at(61), Limit: at(60)}, rt.OutcomeTimeout, "kernel"},
		{"0:0, script ended well after the limit", zero, Evidence{Batch: exited(0), End: at(61), Limit: at(60)}, rt.OutcomeFinished, "kernel"},
		{"no Epilog, nothing", rt.Exit{}, Evidence{}, rt.OutcomeUnknown, ""},
		{"no Epilog, script ended well", rt.Exit{}, Evidence{Batch: exited(0)}, rt.OutcomeFinished, "kernel"},
		{"no Epilog, script failed", rt.Exit{}, Evidence{Batch: exited(3)}, rt.OutcomeFailed, "kernel"},
		{"no Epilog, oom", rt.Exit{}, Evidence{Batch: killed(syscall.SIGKILL), OOMKills: 1}, rt.OutcomeOOM, "kernel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Decide(tt.exit, tt.seen)
			if got.Outcome != tt.outcome || got.Source != tt.source {
				t.Errorf("outcome %q by %q, want %q by %q", got.Outcome, got.Source, tt.outcome, tt.source)
			}
			if tt.exit.Code.Valid() && (got.Code != tt.exit.Code || got.Signal != tt.exit.Signal) {
				t.Errorf("Slurm's exit became %v:%v", got.Code, got.Signal)
			}
		})
	}
	if got := Decide(rt.Exit{}, Evidence{Batch: exited(3)}); got.Code != rt.Some[int64](3) || got.Signal != rt.Some[int64](0) {
		t.Errorf("the kernel's exit 3 became %v:%v", got.Code, got.Signal)
	}
	if got := Decide(rt.Exit{}, Evidence{Batch: killed(9)}); got.Code != rt.Some[int64](0) || got.Signal != rt.Some[int64](9) {
		t.Errorf("the kernel's signal 9 became %v:%v", got.Code, got.Signal)
	}
}
