package registry

import (
	"slices"

	"github.com/resource-tracker/rt/site"
)

// pseudonyms is Config.Pseudonym.
type pseudonyms func(user string) string

// reach adds the pseudonyms of the users to what a reader sees.
func (p pseudonyms) reach(a *site.Access) *site.Access {
	if a == nil {
		return nil
	}
	return &site.Access{Users: p.alsoHidden(a.Users), Accounts: a.Accounts}
}

// wanted adds the pseudonyms of the users to the users of a filter. A coordinator learns no pseudonym of
// another user.
func (p pseudonyms) wanted(f site.Filter) []string {
	if f.Access == nil {
		return p.alsoHidden(f.Users)
	}
	own := slices.DeleteFunc(slices.Clone(f.Users), func(user string) bool { return !slices.Contains(f.Access.Users, user) })
	return append(slices.Clone(f.Users), p.alsoHidden(own)[len(own):]...)
}

// alsoHidden returns names and their pseudonyms.
func (p pseudonyms) alsoHidden(users []string) []string {
	all := slices.Clone(users)
	if p == nil {
		return all
	}
	for _, user := range users {
		if user != "" {
			all = append(all, p(user))
		}
	}
	return all
}
