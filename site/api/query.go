package api

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// The limits of a query. The description of the API states them too.
const (
	pageJobs    = 100  // default of limit
	maxPageJobs = 1000 // maximum of limit
	maxValue    = 200  // characters of a text
	maxValues   = 16   // of a parameter that may be repeated
)

var (
	number   = regexp.MustCompile(`^[0-9]{1,18}$`)
	cursors  = regexp.MustCompile(`^([0-9]{1,18}\.)?-?[0-9]{1,18}\.[0-9]{1,18}\.([0-9a-f]{2}){0,200}$`) // with the waste before it in this order
	sorts    = []string{"start", "waste"}
	states   = []string{string(rt.StateRunning), string(rt.StateEnded), string(rt.StateDelivered)}
	outcomes = []string{
		string(rt.OutcomeFinished), string(rt.OutcomeFailed), string(rt.OutcomeCancelled), string(rt.OutcomeTimeout),
		string(rt.OutcomeOOM), string(rt.OutcomeLost), string(rt.OutcomeUnknown), string(rt.OutcomeTerminated),
	}
)

// query is a list request.
type query struct {
	filter     site.Filter
	node       string     // of GET /v1/nodes
	by         site.Group // of GET /v1/sums
	generation int64      // of GET /v1/jobs/{job}
	limit      int
	cursor     string
}

// parameter sets a part of a query from the values of a parameter. It returns what is wrong with them.
type parameter struct {
	isMany bool // may be repeated
	set    func(q *query, values []string) (wrong string)
}

// listParameters are the parameters of the lists.
var listParameters = map[string]parameter{
	"cluster":   {false, text(func(q *query, v []string) { q.filter.Cluster = v[0] })},
	"job_name":  {false, text(func(q *query, v []string) { q.filter.Name = v[0] })},
	"user":      {true, text(func(q *query, v []string) { q.filter.Users = v })},
	"account":   {true, text(func(q *query, v []string) { q.filter.Accounts = v })},
	"partition": {true, text(func(q *query, v []string) { q.filter.Partitions = v })},
	"state":     {false, word(states, func(q *query, v string) { q.filter.State = rt.State(v) })},
	"outcome":   {false, word(outcomes, func(q *query, v string) { q.filter.Outcome = v })},
	"since":     {false, moment(func(q *query, at time.Time) { q.filter.Since = at })},
	"until":     {false, moment(func(q *query, at time.Time) { q.filter.Until = at })},
	"job_id": {false, func(q *query, v []string) string {
		id, err := strconv.ParseUint(v[0], 10, 63)
		if err != nil || !number.MatchString(v[0]) {
			return "must be a number of at most 18 digits"
		}
		q.filter.JobID = rt.Some(id)
		return ""
	}},
	"sort": {false, word(sorts, func(q *query, v string) {
		q.filter.Sort = map[string]site.Sort{"start": site.ByStart, "waste": site.ByWaste}[v]
	})},
	"limit": {false, func(q *query, v []string) string {
		n, err := strconv.Atoi(v[0])
		isOutside := n < 1 || n > maxPageJobs
		if err != nil || isOutside || !number.MatchString(v[0]) {
			return "must be a number from 1 to " + strconv.Itoa(maxPageJobs)
		}
		q.limit = n
		return ""
	}},
	"cursor": {false, func(q *query, v []string) string {
		if !cursors.MatchString(v[0]) {
			return "must be next of an earlier answer"
		}
		q.cursor = v[0]
		return ""
	}},
}

func text(set func(*query, []string)) func(*query, []string) string {
	return func(q *query, values []string) string {
		for _, v := range values {
			if v == "" || utf8.RuneCountInString(v) > maxValue {
				return "must have 1 to " + strconv.Itoa(maxValue) + " characters"
			}
		}
		set(q, values)
		return ""
	}
}

func word(words []string, set func(*query, string)) func(*query, []string) string {
	return func(q *query, values []string) string {
		if !slices.Contains(words, values[0]) {
			return "must be one of " + strings.Join(words, ", ")
		}
		set(q, values[0])
		return ""
	}
}

func moment(set func(*query, time.Time)) func(*query, []string) string {
	return func(q *query, values []string) string {
		at, err := time.Parse(time.RFC3339, values[0])
		if err != nil {
			return "must be a time of RFC 3339, such as 2026-01-31T12:00:00Z"
		}
		set(q, at)
		return ""
	}
}

// parseQuery returns the parameters of a request. A parameter must be expected, and may be there
// twice only if it can be repeated.
func parseQuery(r *http.Request, expected ...map[string]parameter) (q query, err error) {
	q.limit = pageJobs
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, refuse(http.StatusBadRequest, "the query of the URL is malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var p parameter
		for _, some := range expected {
			p = some[name]
		}
		most := 1
		if p.isMany {
			most = maxValues
		}
		wrong := ""
		switch all := values[name]; {
		case p.set == nil:
			return q, refuse(http.StatusBadRequest, "there is no parameter %q here", name)
		case len(all) > most:
			wrong = "may be there at most " + strconv.Itoa(most) + " times"
		case !utf8.ValidString(strings.Join(all, "")):
			wrong = "must be UTF-8"
		default:
			wrong = p.set(&q, all)
		}
		if wrong != "" {
			return q, refuse(http.StatusBadRequest, "%s %s", name, wrong)
		}
	}
	return q, nil
}
