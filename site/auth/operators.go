package auth

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
)

// operators are the users that see all runs.
type operators struct {
	users  []string
	groups []string
	of     *lookup[[]string] // the names of the groups of a user
}

func newOperators(configured []string) (o operators, err error) {
	for _, name := range configured {
		group, isGroup := strings.CutPrefix(name, "@")
		if !isName(group) {
			return o, fmt.Errorf("serve.operators: %q is neither a user nor a group with @ before it", name)
		}
		if isGroup {
			o.groups = append(o.groups, group)
		} else {
			o.users = append(o.users, name)
		}
	}
	o.of = newLookup(groupsOf)
	return o, nil
}

// has reports whether a user is an operator.
func (o operators) has(ctx context.Context, name string) (bool, error) {
	if slices.Contains(o.users, name) {
		return true, nil
	}
	if len(o.groups) == 0 {
		return false, nil
	}
	groups, err := o.of.get(ctx, name)
	isMember := slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(o.groups, group) })
	return isMember, err
}

// groupsOf returns the names of the groups of a user, none for a user that this machine does not know.
func groupsOf(name string) (groups []string, err error) {
	u, err := user.Lookup(name)
	if unknown := user.UnknownUserError(""); errors.As(err, &unknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil { // a group without a name is not configured
			groups = append(groups, g.Name)
		}
	}
	return groups, nil
}
