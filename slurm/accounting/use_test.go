package accounting

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/fakesacct"
)

// TestParseSacctUse: a job's own line has its use, and the lines of its steps have the memory. The
// step with the most memory is named.
func TestParseSacctUse(t *testing.T) {
	var text strings.Builder
	err := fakesacct.Print(&text, fixture(t, "testdata/sacct-P-sonar-fields.txt"), []string{"--format=ElapsedRaw," + sacctUseFields}, "%s")
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := ParseSacct(text.String(), time.UTC)
	if err != nil || len(accounts) == 0 || accounts[0].JobID != 29 {
		t.Fatalf("%+v, %v", accounts, err)
	}
	want := AccountUse{
		Elapsed: rt.Some[uint64](10), User: rt.Some[uint64](3838000), System: rt.Some[uint64](1310000),
		MaxRSS: rt.Some[uint64](105200 << 10), MaxRSSStep: "0",
	}
	got := accounts[0].Used
	got.MaxRSSNode = "" // the fixture has no such field
	if d := cmp.Diff(want, got, optionals()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	const lines = "JobIDRaw|State|ElapsedRaw|TotalCPU|UserCPU|SystemCPU|MaxRSS|MaxRSSNode\n" +
		"7.0|COMPLETED|9|00:09||||n9\n" +
		"8|COMPLETED|61|1-00:00:02|01:00.500|00:00.250||\n8.batch|COMPLETED|61|00:01|||4016K|n1\n8.0|COMPLETED|60|00:02|||1.5M|n2\n" +
		"9|COMPLETED|-|x||00:1:2:3||\n9.0|COMPLETED||||||n1\n10.0|COMPLETED|||||77M|n1\n"
	accounts, err = ParseSacct(lines, time.UTC)
	if err != nil || len(accounts) != 2 {
		t.Fatalf("%+v, %v", accounts, err)
	}
	e, ok := accounts[0].Event(time.Unix(5, 0))
	const detail = "state=COMPLETED elapsed_secs=61 cpu_secs=86402 cpu_user_secs=60.5 cpu_system_secs=0.25 max_rss_bytes=4112384 max_rss_step=batch max_rss_node=n1"
	if !ok || e.Detail != detail || e.Kind != "job" || e.Name != "sacct" || e.Status != "ok" {
		t.Errorf("%v %+v", ok, e)
	}
	requeued := []Account{{JobID: 8, Start: began}, {JobID: 8, Start: began.Add(time.Hour), Used: AccountUse{Elapsed: rt.Some[uint64](7)}}}
	later := accounts[0]
	later.Start = requeued[1].Start
	if MergeUse(requeued, []Account{later}); requeued[0].Used != (AccountUse{}) || requeued[1].Used.Elapsed != rt.Some[uint64](7) || requeued[1].Used.MaxRSSStep != "batch" {
		t.Errorf("two attempts with the use of the second: %+v", requeued)
	}
	accounts[1].State = ""
	if e, ok := accounts[1].Event(time.Unix(5, 0)); ok {
		t.Errorf("an account without figures has the event %+v", e)
	}
}
