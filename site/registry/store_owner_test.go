package registry

import (
	"fmt"
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		want := ""
		expect := func(what string) {
			t.Helper()
			got, err := again().Settings.Claims(t.Context())
			is(t, "Claims", err, nil)
			same(t, what, strings.Join(got, " "), want)
		}
		expect("no claim")
		is(t, "AddClaim", r.Settings.AddClaim(t.Context(), "none", "x"), nil)
		expect("a claim after one that is not there")
		is(t, "AddClaim", r.Settings.AddClaim(t.Context(), "", "c0"), nil)
		want = "c0"
		expect("the first claim")
		is(t, "AddClaim", r.Settings.AddClaim(t.Context(), "", "x"), nil)
		expect("another first claim")
		for n := range 105 {
			is(t, "AddClaim", r.Settings.AddClaim(t.Context(), fmt.Sprint("c", n), fmt.Sprint("c", n+1)), nil)
			is(t, "AddClaim", r.Settings.AddClaim(t.Context(), fmt.Sprint("c", n), "x"), nil)
		}
		claims, err := again().Settings.Claims(t.Context())
		is(t, "Claims", err, nil)
		same(t, "number of claims", len(claims), 100)
		same(t, "the last claims", claims[0]+" "+claims[99], "c105 c6")
	})
}
