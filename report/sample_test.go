package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// The delivered figures of earlier runs give the same advice as the runs themselves. Each of these runs changes the
// advice, and needs a part of the figures for that.
func TestDeliveredFiguresAreASample(t *testing.T) {
	last := func() *Summary {
		s := ran(9, "n1", 1, 3600)
		s.threads = []ThreadUse{{Secs: 3600, Threads: 3}}
		return s
	}
	alone := advised(t, last())
	for name, change := range map[string]func(*Summary){
		"threads": func(s *Summary) { s.threads = []ThreadUse{{Secs: 1700, Threads: 1}, {Secs: 1700, Threads: 1}} },
		"tasks": func(s *Summary) {
			s.Steps = []Step{{Step: "0", Figures: Figures{Used: Used{UsedSecs: rt.Some(3600.0)}}, Tasks: []Task{
				{Task: 0, Figures: Figures{Used: Used{UsedSecs: rt.Some(1800.0)}}}, {Task: 1, Figures: Figures{Used: Used{UsedSecs: rt.Some(1800.0)}}},
			}}}
			s.threads = []ThreadUse{{rt.Some[uint64](1), 1800, 1}}
		},
		"peak of readings": func(s *Summary) { s.Memory.PeakOf = "readings" },
		"directory":        func(s *Summary) { s.Run.WorkDir = "/elsewhere" },
		"gap":              func(s *Summary) { s.Record.Gaps = 1 },
		"missed":           func(s *Summary) { s.Record.Missed = 1 },
		"lower bound":      func(s *Summary) { s.CPU.UsedMark = AtLeast },
		"other scope":      func(s *Summary) { s.Scope = ScopeTree },
	} {
		s := ran(8, "n1", 1.2, 3600)
		change(s)
		got := advised(t, last(), s) // compares both
		plain := advised(t, last(), ran(8, "n1", 1.2, 3600))
		if reflect.DeepEqual(got.Advice, plain.Advice) || reflect.DeepEqual(plain.Advice, alone.Advice) {
			t.Errorf("%s: the earlier run changes nothing", name)
		}
	}
	gpus := ran(8, "n1", 1, 3600)
	gpus.GPUs = []GPU{{MaxBusyPct: rt.Some(0.0)}, {GPUPart: GPUPart{Processes: 1}, MaxBusyPct: rt.Some(7.0)}}
	back := delivered(t, []*Summary{gpus})[0]
	if !reflect.DeepEqual(gpus.GPUs, back.GPUs) {
		t.Errorf("the GPUs of the sample are %+v", back.GPUs)
	}
}

// A run that is in no sample delivers nothing for it. Any text of a site is a summary or an error.
func TestDeliveredFiguresFromAnySource(t *testing.T) {
	s := ran(8, "n1", 1, 3600)
	s.Scope = ScopeNode
	text, err := json.Marshal(s.Delivered())
	if err != nil || strings.Contains(string(text), "sample") {
		t.Errorf("%s, %v", text, err)
	}
	for _, text := range []string{`{}`, `{"sample":{}}`, `{"sample":{"gpus":[{},{}],"core_groups":[{"cores":1000000000000}]},"gpus":[{}]}`} {
		d := &DeliveredFigures{}
		if err := json.Unmarshal([]byte(text), d); err != nil {
			t.Fatal(err)
		}
		advised(t, ran(9, "n1", 1, 3600), d.Summary())
	}
}
