package api

import (
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// livePath is the path of the reports of runs that are not delivered yet.
const livePath = "live"

// putLive answers PUT /live with the names of the runs whose readings are wanted.
func (s *receiver) putLive(w http.ResponseWriter, t turn, body []byte) error {
	var l site.LiveReport
	err := t.do(func() (err error) {
		l, err = parseLive(body)
		return err
	})
	if err != nil {
		return err
	}
	wanted, err := s.conf.Registry.Live.Put(t.ctx, t.client, l, time.Now())
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, site.LiveAnswer{Wanted: append([]string{}, wanted...)})
	return nil
}

// parseLive parses and checks a report. Fields that are not known are ignored: a newer node sends them.
func parseLive(body []byte) (l site.LiveReport, err error) {
	if err := unmarshal(body, &l); err != nil {
		return l, err
	}
	isNamed := nameOfNode.MatchString(l.Node) && nameOfCluster.MatchString(l.Cluster)
	switch {
	case !isNamed:
		return l, refuse(http.StatusUnprocessableEntity, "node and cluster must have at most 128 letters, digits, \".\", \"_\" and \"-\", and node at least one")
	case len(l.Runs) > site.MaxLiveRuns:
		return l, refuse(http.StatusRequestEntityTooLarge, "a report may have %d runs", site.MaxLiveRuns)
	}
	for i := range l.Runs {
		if err := checkLive(&l, &l.Runs[i]); err != nil {
			return l, err
		}
	}
	return l, nil
}

// checkLive checks a run of a report: a node speaks of whole jobs on itself only.
func checkLive(l *site.LiveReport, f *site.LiveRun) error {
	run := f.Summary().Run
	isHere := run.Node == l.Node && run.Cluster == l.Cluster
	isWhole := run.JobID.Valid() && run.Step == ""
	isState := run.State == rt.StateRunning || run.State == rt.StateEnded
	text, err := site.EncodeJSON(f)
	switch {
	case err != nil:
		return refuse(http.StatusUnprocessableEntity, "a run of the report is no JSON: %v", err)
	case len(text) > site.MaxLiveRun:
		return refuse(http.StatusRequestEntityTooLarge, "a run of a report may have %d bytes", site.MaxLiveRun)
	case !isHere:
		return refuse(http.StatusUnprocessableEntity, "a run of the report is of another node or cluster")
	case !isWhole:
		return refuse(http.StatusUnprocessableEntity, "a run of the report is of no job, or of a step")
	case !isState:
		return refuse(http.StatusUnprocessableEntity, "the state of a run must be %s or %s", rt.StateRunning, rt.StateEnded)
	}
	for _, at := range []time.Time{run.Start, run.End, f.Record.Last} {
		isOutside := !at.IsZero() && (at.Year() < 1970 || at.Year() > 9998)
		if isOutside || run.Start.IsZero() {
			return refuse(http.StatusUnprocessableEntity, "a time of a run is missing, or not between the years 1970 and 9998")
		}
	}
	if err := site.CheckRecordNumbers(&run); err != nil {
		return refuse(http.StatusUnprocessableEntity, "a run of the report: %v", err)
	}
	return nil
}
