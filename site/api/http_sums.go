package api

import (
	"maps"
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

var groups = []string{string(site.ByUser), string(site.ByAccount), string(site.ByPartition), string(site.ByWeek), string(site.ByDay)}

// sumParameters are the parameters of GET /v1/sums: by, and what selects jobs in the lists.
var sumParameters = func() map[string]parameter {
	all := maps.Clone(listParameters)
	delete(all, "sort")
	delete(all, "cursor")
	all["by"] = parameter{false, word(groups, func(q *query, v string) { q.by = site.Group(v) })}
	return all
}()

// sumItem is the sum of a group of jobs.
type sumItem struct {
	Name      *string `json:"name"` // of a week or day: its date
	Jobs      int64   `json:"jobs"`
	KnownJobs int64   `json:"jobs_known"` // whose waste is known
	report.Hours
}

// pricesView are the prices of the waste.
type pricesView struct {
	GPU      float64         `json:"gpu"`
	GiB      float64         `json:"gib"`
	CoreHour rt.Opt[float64] `json:"core_hour"`
	Currency *string         `json:"currency"`
}

// readSums answers GET /v1/sums with the sums that the pages of users and accounts show.
func (s *readers) readSums(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	asked, err := parseQuery(r, sumParameters)
	if err != nil {
		return err
	}
	if asked.by == "" {
		return refuse(http.StatusBadRequest, "by is missing: it is one of user, account, partition, week, day")
	}
	asked.filter.Access = q.access
	totals, err := s.conf.Registry.Jobs.Totals(q.ctx, asked.filter, asked.by, asked.limit+1)
	if err != nil {
		return err
	}
	prices := s.conf.Registry.Prices()
	answer := struct {
		Sums      []sumItem  `json:"sums"`
		IsPartial bool       `json:"is_partial"`
		Prices    pricesView `json:"prices"`
	}{[]sumItem{}, len(totals) > asked.limit, pricesView{GPU: prices.GPU, GiB: prices.GiB, Currency: known(prices.Currency)}}
	if prices.CoreHour > 0 {
		answer.Prices.CoreHour.Set(prices.CoreHour)
	}
	for i := range totals[:min(len(totals), asked.limit)] {
		t := &totals[i]
		name := t.Name
		if !t.Begin.IsZero() {
			name = t.Begin.Format(time.DateOnly)
		}
		answer.Sums = append(answer.Sums, sumItem{known(name), t.Jobs, t.Known, t.Hours(prices)})
	}
	text, err := q.encode(answer)
	if err != nil {
		return err
	}
	replyText(w, text)
	return nil
}
