package registry

import (
	"slices"

	"github.com/resource-tracker/rt/site"
)

// reach adds the pseudonyms of the users to what a reader sees.
func (r *Registry) reach(a *site.Access) *site.Access {
	if a == nil {
		return nil
	}
	return &site.Access{Users: r.alsoHidden(a.Users), Accounts: a.Accounts}
}

// wanted adds the pseudonyms of the users to the users of a filter. A coordinator learns no pseudonym of
// another user.
func (r *Registry) wanted(f site.Filter) []string {
	if f.Access == nil {
		return r.alsoHidden(f.Users)
	}
	own := slices.DeleteFunc(slices.Clone(f.Users), func(user string) bool { return !slices.Contains(f.Access.Users, user) })
	return append(slices.Clone(f.Users), r.alsoHidden(own)[len(own):]...)
}

// alsoHidden returns names and their pseudonyms.
func (r *Registry) alsoHidden(users []string) []string {
	all := slices.Clone(users)
	if r.options.Pseudonym == nil {
		return all
	}
	for _, user := range users {
		if user != "" {
			all = append(all, r.options.Pseudonym(user))
		}
	}
	return all
}
