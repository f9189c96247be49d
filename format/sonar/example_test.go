package sonar_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt/format/sonar"
)

func ExampleDecode() {
	file := "v=0.13.0,time=2026-03-01T12:00:00+01:00,host=ml1,user=anna,cmd=train,job=77,pid=4711,cputime_sec=60\n" +
		"v=0.13.0,time=2026-03-01T12:00:00+01:00,host=ml1,user=anna,cmd=train,job=many\n"
	for record, err := range sonar.Decode(strings.NewReader(file)) {
		if err != nil {
			fmt.Println(err) // the other lines are read
			continue
		}
		s := record.(*sonar.Sample)
		fmt.Printf("job %d of %s: %d s of CPU time\n", s.Job, s.User, s.CPUTimeSec)
	}
	// Output:
	// job 77 of anna: 60 s of CPU time
	// line 2 (from byte 100): job: "many" is no unsigned integer
}

func ExampleSample_AppendCSV() {
	s := sonar.Sample{
		Version: sonar.Version, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Host: "ml1", User: "anna", Cmd: "train",
		Job: 77, PID: 4711, CPUTimeSec: 60,
	}
	line, err := s.AppendCSV(nil)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(line))
	// Output:
	// v=0.13.0,time=2026-03-01T12:00:00+00:00,host=ml1,user=anna,cmd=train,job=77,pid=4711,cputime_sec=60
}
