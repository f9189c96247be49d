package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/table"
	"github.com/resource-tracker/rt/site"
)

// sessions lists the sessions of browsers, the links that begin one and those that share a job, or revokes some.
func sessions(ctx context.Context, o *options, stdout, _ io.Writer) (err error) {
	st, err := o.open(ctx, sitestores.OpenAny)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	isRevoke := o.isSet("revoke") || o.isSet("revoke-user")
	if !isRevoke {
		all, err := st.Registry.Sessions.List(ctx, "", time.Now())
		if err != nil {
			return err
		}
		return printSessions(stdout, all, o.json)
	}
	isOne := (o.revoke == "") != (o.revokeUser == "")
	if !isOne {
		return cli.Usage("sessions takes --revoke ID or --revoke-user NAME; see rt-site --help")
	}
	n, err := st.Registry.Sessions.Revoke(ctx, o.revokeUser, o.revoke)
	if err != nil {
		return err
	}
	if n == 0 && o.revoke != "" {
		return fmt.Errorf("there is no session %s: rt-site sessions lists them", printable.Text(o.revoke))
	}
	what := cmp.Or(o.revoke, o.revokeUser)
	if err := st.Registry.Settings.Audit(ctx, operator(), fmt.Sprintf("has revoked %d sessions: %s", n, what)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d revoked\n", n)
	return nil
}

var sessionColumns = []table.Column[site.Session]{
	{Head: "ID", Cell: func(s *site.Session) string { return s.ID }},
	{Head: "KIND", Cell: func(s *site.Session) string { return string(s.Kind) }},
	{Head: "USER", IsName: true, Cell: func(s *site.Session) string { return s.User }},
	{Head: "CREATED", Drop: 3, Cell: func(s *site.Session) string { return second(s.Created) }},
	{Head: "EXPIRES", Cell: func(s *site.Session) string { return second(s.Expires) }},
	{Head: "LAST-USE", Drop: 2, Cell: func(s *site.Session) string { return second(s.Used.Or(time.Time{})) }},
	{Head: "ADDRESS", Drop: 1, Cell: func(s *site.Session) string { return s.Address }},
	{Head: "PAGE", Drop: 4, Cell: func(s *site.Session) string { return cmp.Or(s.Target, "-") }},
}

// second formats a time in UTC; a dash stands for none.
func second(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05Z")
}

func printSessions(w io.Writer, all []site.Session, isJSON bool) error {
	if isJSON {
		return cli.PrintJSON(w, append([]site.Session{}, all...)) // an array also of none
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no sessions, and no links into the pages")
		return err
	}
	_, err := table.Write(w, sessionColumns, all, cli.TerminalWidth(w))
	return err
}
