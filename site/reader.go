package site

import "errors"

// Reader is who may read runs.
type Reader struct {
	By       string   // how the reader was identified: "munge", "proxy", "token", "session" or "share"
	Name     string   // names the client in the limits, without a secret
	User     string   // empty for a token without a user
	Operator bool     // sees all runs
	Accounts []string // sees the jobs of these accounts
}

// IsShare reports whether the reader has a link that shows one job.
func (r Reader) IsShare() bool { return r.By == "share" }

// Access returns what the reader sees; nil means all runs.
func (r Reader) Access() *Access {
	if r.Operator {
		return nil
	}
	a := &Access{Accounts: r.Accounts}
	if r.User != "" {
		a.Users = []string{r.User}
	}
	return a
}

// Access selects the jobs of any of the users or accounts. The zero value selects none.
type Access struct{ Users, Accounts []string }

// Errors of the identification of a reader.
var (
	ErrUnknownReader = errors.New("the request does not show who sends it")
	ErrNoReader      = errors.New("the sender of this request may not read runs")
	ErrBusy          = errors.New("too many requests are in progress")
)
