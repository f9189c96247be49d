package registry

import (
	"testing"
	"time"
)

func TestHold(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		until, err := r.Settings.Held(t.Context())
		is(t, "Held", err, nil)
		same(t, "no hold", until.IsZero(), true)
		for _, want := range []time.Time{start, start.Add(time.Hour)} {
			is(t, "Hold", r.Settings.Hold(t.Context(), want), nil)
			until, err = again().Settings.Held(t.Context())
			is(t, "Held", err, nil)
			same(t, "hold", until, want)
		}
	})
}
