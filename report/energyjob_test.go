package report

import (
	"math"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// powered is a node with two packages that draws 100 W while idle and 300 W while it works. All
// CPU time that others do not use is the job's.
func powered(share float64, seconds int) []rt.Snapshot {
	var out []rt.Snapshot
	var uj, busy, job uint64
	for i := range seconds {
		s := at(float64(i))
		s.Job.Phase = rt.JobPresent
		if i > 0 {
			watts, cores := uint64(300), 2.0
			if i%10 == 0 {
				watts, cores = 100, 0
			}
			uj += watts * 1e6
			busy += uint64(cores * 100)
			job += uint64(cores * share * 1e6)
		}
		s.Node.CPU.Set(rt.CPUTimes{User: busy})
		s.Job.CPUUsage = u(job)
		s.Energy = []rt.EnergyReading{
			{Source: "powercap", Domain: "package-0", Kind: rt.EnergyPackage, Energy: u(uj / 2)},
			{Source: "powercap", Domain: "package-1", Kind: rt.EnergyPackage, Energy: u(uj - uj/2)},
		}
		s.GPUs = []rt.GPUReading{
			{UUID: "a", InJob: rt.Some(true), Power: rt.Some(250.0)}, {UUID: "b", InJob: rt.Some(false), Power: rt.Some(70.0)}, {UUID: "mig", InJob: rt.Some(true)},
		}
		out = append(out, s)
	}
	return out
}

func near(t *testing.T, what string, got rt.Opt[float64], want float64) {
	t.Helper()
	if v, ok := got.Get(); !ok || math.Abs(v-want) > 1e-6*math.Max(1, want) {
		t.Errorf("%s is %v, want %g", what, got, want)
	}
}

func TestJobEnergy(t *testing.T) {
	const seconds = 100
	shares := map[float64]float64{}
	for _, share := range []float64{0.75, 0.25} {
		s, err := Summarize(slurmRun(), nil, seq(powered(share, seconds+1)))
		if err != nil {
			t.Fatal(err)
		}
		s.ShareEnergy(0, 400)
		e := s.JobEnergy
		node := 300.0*90 + 100*10
		active := 200.0 * 90
		near(t, "node", e.NodeJoules, node)
		near(t, "idle", e.IdleJoules, 100*seconds)
		near(t, "active", e.ActiveJoules, share*active)
		near(t, "others", e.OtherJoules, (1-share)*active)
		near(t, "with all idle", e.HighJoules, share*active+100*seconds)
		near(t, "GPU", e.GPUJoules, 250*seconds)
		near(t, "kWh", e.KWh, (share*active+250*seconds)/3.6e6)
		near(t, "CO2e", e.CO2eGrams, (share*active+250*seconds)/3.6e6*400)
		if e.Of != "package" || e.IdleOf != "least" || e.CoveredSecs != seconds {
			t.Errorf("%+v", e)
		}
		shares[share] = e.ActiveJoules.Or(0)
		s.ShareEnergy(50, 0)
		if near(t, "idle as configured", s.JobEnergy.IdleJoules, 50*seconds); s.JobEnergy.CO2eGrams.Valid() || s.JobEnergy.IdleOf != "configuration" {
			t.Errorf("%+v", s.JobEnergy)
		}
	}
	if ratio := shares[0.75] / shares[0.25]; math.Abs(ratio-3) > 0.03 {
		t.Errorf("two jobs of three and one part have %g to 1", ratio)
	}
}

// Where nothing measures there is no figure, and the reason where there could be one.
func TestJobEnergyIsAbsent(t *testing.T) {
	snapshots := powered(0.5, 20)
	for i := range snapshots {
		snapshots[i].Energy[1].Energy.Clear() // of two packages one cannot be read
	}
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	if e := s.JobEnergy; e.ActiveJoules.Valid() || e.NodeJoules.Valid() || e.Reason == "" || !e.GPUJoules.Valid() {
		t.Errorf("%+v", e)
	}
	for i := range snapshots {
		snapshots[i].Energy, snapshots[i].GPUs = nil, nil
	}
	if s, err = Summarize(slurmRun(), nil, seq(snapshots)); err != nil || s.JobEnergy != nil {
		t.Errorf("%v, %+v", err, s.JobEnergy)
	}
}

// A power meter stands for the node between its readings, without the GPUs' part.
func TestJobEnergyOfAMeter(t *testing.T) {
	snapshots := powered(0.5, 31)
	for i := range snapshots {
		snapshots[i].Energy = []rt.EnergyReading{{Source: "hwmon", Domain: "power_meter", Kind: rt.EnergyNode}}
		if i%10 == 0 {
			snapshots[i].Energy[0].Power.Set(820)
		}
	}
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	if near(t, "node", s.JobEnergy.NodeJoules, (820-250-70)*30); s.JobEnergy.Of != "meter" {
		t.Errorf("%+v", s.JobEnergy)
	}
}

// What a GPU's driver counted comes before its mean power.
func TestJobEnergyOfCountedGPUs(t *testing.T) {
	snapshots := powered(0.5, 21)
	for i := range snapshots {
		for _, uuid := range []string{"a", "b"} {
			snapshots[i].Energy = append(snapshots[i].Energy, rt.EnergyReading{Source: "gpu", Domain: uuid, Kind: rt.EnergyGPU, Energy: u(uint64(i) * 240e6)})
		}
	}
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "GPU", s.JobEnergy.GPUJoules, 240*20)
}

// The energy that the GPU drivers counted is subtracted from a power meter, too, and a GPU of
// the job without a measurement is reported.
func TestJobEnergyOfCountedGPUsWithAMeter(t *testing.T) {
	snapshots := powered(0.5, 21)
	for i := range snapshots {
		for k := range snapshots[i].GPUs {
			snapshots[i].GPUs[k].Power.Clear()
		}
		snapshots[i].Energy = []rt.EnergyReading{
			{Source: "hwmon", Domain: "power_meter", Kind: rt.EnergyNode, Power: rt.Some(820.0)},
			{Source: "gpu", Domain: "a", Kind: rt.EnergyGPU, Energy: u(uint64(i) * 240e6)},
		}
	}
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	e := s.JobEnergy
	near(t, "node", e.NodeJoules, (820-240)*20)
	if near(t, "GPU", e.GPUJoules, 240*20); e.GPUsUnmeasured != 1 || !strings.HasSuffix(e.gpus(), ", and 1 that nothing measured") {
		t.Errorf("%+v, %s", e, e.gpus())
	}
}

// A MIG instance has the share of its slices in the card's energy, and none if the driver
// reports no slices.
func TestJobEnergyOfSlices(t *testing.T) {
	snapshots := powered(0.5, 21)
	share := func(slices string) {
		for i := range snapshots {
			snapshots[i].GPUs = []rt.GPUReading{
				{UUID: "card", Power: rt.Some(350.0), Detail: map[string]string{"mig_mode": "enabled"}},
				{UUID: "MIG-1", InJob: rt.Some(true), Detail: map[string]string{"parent_uuid": "card", "mig_compute_slices": slices}},
				{UUID: "MIG-2", InJob: rt.Some(false), Detail: map[string]string{"parent_uuid": "card", "mig_compute_slices": "4/7"}},
			}
		}
	}
	share("2/7")
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	if near(t, "by mean power", s.JobEnergy.GPUJoules, 350*20*2/7.0); s.JobEnergy.GPUMethod != "slice" {
		t.Errorf("%+v", s.JobEnergy)
	}
	for i := range snapshots {
		snapshots[i].Energy = append(snapshots[i].Energy, rt.EnergyReading{Source: "gpu", Domain: "card", Kind: rt.EnergyGPU, Energy: u(uint64(i) * 700e6)})
	}
	if s, err = Summarize(slurmRun(), nil, seq(snapshots)); err != nil {
		t.Fatal(err)
	}
	near(t, "counted", s.JobEnergy.GPUJoules, 700*20*2/7.0)
	for _, slices := range []string{"", "7", "8/7", "x/7", "0/0"} {
		share(slices)
		if s, err = Summarize(slurmRun(), nil, seq(snapshots)); err != nil || s.JobEnergy.GPUJoules.Valid() {
			t.Errorf("%q: %v, %v", slices, err, s.JobEnergy.GPUJoules)
		}
	}
}

// Where instructions were counted they go before CPU time, interval by interval.
func TestJobEnergyByInstructions(t *testing.T) {
	snapshots := powered(0.5, 22)
	for i := range snapshots[:12] {
		for group, n := range map[string]uint64{"core": 100, "node": 1000} {
			snapshots[i].Perf = append(snapshots[i].Perf, rt.PerfReading{Group: group, Event: "instructions",
				Value: u(uint64(i) * n), TimeEnabled: u(uint64(i)), TimeRunning: u(uint64(i))})
		}
	}
	s, err := Summarize(slurmRun(), nil, seq(snapshots))
	if err != nil {
		t.Fatal(err)
	}
	e := s.JobEnergy // seconds 10 and 20 are idle
	near(t, "active", e.ActiveJoules, 200*(0.1*10+0.5*9))
	if e.Method != "cpu time, instructions" || e.InstructionsSecs != 11 || e.CoveredSecs != 21 {
		t.Errorf("%+v", e)
	}
}

// The shares of the intervals add up to the job's energy.
func TestPowerShare(t *testing.T) {
	list := powered(0.25, 101)
	s, err := Summarize(slurmRun(), nil, seq(list))
	if err != nil {
		t.Fatal(err)
	}
	share, sum := PowerShare{Of: s.JobEnergy}, 0.0
	for i := 1; i < len(list); i++ {
		watts, ok := share.Between(&list[i-1], &list[i]).Get()
		if !ok {
			t.Fatalf("no share in interval %d", i)
		}
		sum += watts
	}
	near(t, "the sum of the shares", rt.Some(sum), s.JobEnergy.ActiveJoules.Or(0))
	if sum <= 0 {
		t.Error("no energy was divided")
	}
	list[50].Energy = nil
	if v := share.Between(&list[49], &list[50]); v.Valid() {
		t.Errorf("%v W of an interval without a reading", v)
	}
	if v := (&PowerShare{}).Between(&list[0], &list[1]); v.Valid() {
		t.Errorf("%v W of a run without energy", v)
	}
}
