package page

import (
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// toChange returns the jobs about which the first page says what to change. The newest one that was killed for memory is
// first, then the newest one that reached its time limit. Those that waste most follow. isCut is set if the search for
// these has not seen all jobs.
func (p *Pages) toChange(r request, f site.Filter) (list []site.JobRow, isCut bool, err error) {
	for _, outcome := range []rt.Outcome{rt.OutcomeOOM, rt.OutcomeTimeout} {
		killed := f
		killed.Outcome = string(outcome)
		found, _, err := p.search(r.Context(), killed, "", 1)
		if err != nil {
			return nil, false, err
		}
		list = append(list, found...)
	}
	wasteful, isCut, err := p.wasteful(r, f, homeWorst)
	for i := range wasteful {
		link := linkOfRow(&wasteful[i])
		if !slices.ContainsFunc(list, func(j site.JobRow) bool { return linkOfRow(&j) == link }) {
			list = append(list, wasteful[i])
		}
	}
	return list[:min(homeWorst, len(list))], isCut, err
}
