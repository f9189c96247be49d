package report

import (
	"testing"

	"github.com/resource-tracker/rt"
)

func TestWaste(t *testing.T) {
	const gib = 1 << 30
	b := Balance{
		CoreSecs: rt.Some(7200.0), CoreSecsUsed: rt.Some(3600.0), CoreMark: AtLeast,
		GPUSecs: rt.Some(3600.0), GPUSecsUsed: rt.Some(1800.0),
		MemorySecs: rt.Some(4.0 * gib * 3600), MemorySecsUsed: rt.Some(2.0 * gib * 3600),
	}
	p := Prices{GPU: 16, GiB: 0.25}
	waste := b.Waste(p)
	if waste != rt.Some(3600.0+1800*16+7200*0.25) || b.WasteMark() != AtMost {
		t.Errorf("the waste is %v, %s", waste, b.WasteMark())
	}
	if text := b.WasteShares(p); text != "cores 11 %, GPUs 84 %, memory 5 %" {
		t.Errorf("the shares are %s", text)
	}
	if text := p.WasteText(waste, b.WasteMark()); text != "at most 9.50 core-hours" {
		t.Errorf("the text is %s", text)
	}
	p.CoreHour, p.Currency = 0.5, "EUR"
	if text := p.WasteText(waste, Exact); text != "9.50 core-hours, 4.75 EUR" {
		t.Errorf("with a price the text is %s", text)
	}
	none := Balance{}
	if none.Waste(p).Valid() || none.WasteShares(p) != "" || p.WasteText(none.Waste(p), Exact) != "-" {
		t.Error("without figures there is a waste")
	}
	over := Balance{CoreSecs: rt.Some(1.0), CoreSecsUsed: rt.Some(2.0)}
	if over.Waste(p) != rt.Some(0.0) {
		t.Errorf("more used than reserved: %v", over.Waste(p))
	}
}

// A requeued job has wasted what all of its attempts did.
func TestWasteOfAttempts(t *testing.T) {
	run := func(attempt uint64, node string, used float64) *Summary {
		s := &Summary{Run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: node, Attempt: attempt}}}
		s.CPU.CoresOf, s.CPU.AllocatedSecs, s.CPU.UsedSecs = "allocation", rt.Some(100.0), rt.Some(used)
		return s
	}
	list := []*Summary{run(0, "n1", 10), run(0, "n2", 20), run(1, "n1", 30), run(1, "n2", 40)}
	if jobs := Jobs(list); len(jobs) != 1 || jobs[0].Balance.Waste(DefaultPrices) != rt.Some(300.0) {
		t.Errorf("%d jobs, waste %v", len(jobs), jobs[0].Balance.Waste(DefaultPrices))
	}
	if all := Attempts(list); len(all) != 2 || all[1].Balance.Waste(DefaultPrices) != rt.Some(130.0) {
		t.Errorf("%d attempts, waste %v", len(all), all[1].Balance.Waste(DefaultPrices))
	}
}
