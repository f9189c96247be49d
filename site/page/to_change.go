package page

import (
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// toChange returns the jobs about which the first page says what to change: the newest one that was killed for memory,
// the newest one that was stopped at its time limit, then those that waste most. isCut is set if the search for the
// most wasteful ones has not seen all jobs.
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
