package api

import (
	"net/http"
	"time"

	"github.com/resource-tracker/rt/report"
)

// adviceParameters are the parameters of GET /v1/advice.
var adviceParameters = map[string]parameter{
	"user": {false, text(func(q *query, v []string) { q.filter.Users = v })},
}

// readAdvice answers GET /v1/advice: the recent kinds of job of a user, and what their next jobs could request less.
func (s *readers) readAdvice(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	asked, err := parseQuery(r, adviceParameters)
	if err != nil {
		return err
	}
	user := q.reader.User
	if len(asked.filter.Users) > 0 {
		user = asked.filter.Users[0]
	}
	if user == "" {
		return refuse(http.StatusBadRequest, "user is missing: the token of this request is of no user")
	}
	jobs, err := s.jobs.Recent(q.ctx, q.reader, user, time.Now())
	if err != nil {
		return err
	}
	answer := struct {
		Kinds []report.Kind `json:"kinds"`
	}{[]report.Kind{}}
	err = q.do(func() error {
		answer.Kinds = append(answer.Kinds, report.Kinds(jobs, s.conf.Registry.Prices())...)
		return nil
	})
	if err != nil {
		return err
	}
	text, err := q.encode(answer)
	if err != nil {
		return err
	}
	replyText(w, text)
	return nil
}
