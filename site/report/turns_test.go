package report

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt/site"
)

// A reader with four requests does not delay the request of another reader by more than one report.
func TestMakerSharesTurnsByReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Maker{Temp: t.TempDir()})
		var order []string
		var group sync.WaitGroup
		finish := make(chan struct{})
		ask := func(reader string) {
			group.Go(func() {
				end, err := m.takeTurn(t.Context(), site.Report{Reader: reader})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, reader)
				<-finish
				end()
			})
			synctest.Wait() // it has its turn, or waits
		}
		for range 4 {
			ask("greedy")
		}
		ask("other")
		for range 5 {
			finish <- struct{}{}
			synctest.Wait()
		}
		group.Wait()
		if want := []string{"greedy", "other", "greedy", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
	})
}

// A request waits at most maxWait, and one whose reader has gone not at all. Neither keeps a turn.
func TestMakerTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Maker{Temp: t.TempDir()})
		end, err := m.takeTurn(t.Context(), site.Report{Reader: "a"})
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, reader := range []string{"a", "b"} {
			if _, err := m.takeTurn(t.Context(), site.Report{Reader: reader}); !errors.Is(err, site.ErrBusy) {
				t.Errorf("%s: %v", reader, err)
			}
			if _, err := m.takeTurn(gone, site.Report{Reader: reader}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, gone: %v", reader, err)
			}
		}
		end()
		end, err = m.takeTurn(t.Context(), site.Report{Reader: "b"})
		if err != nil {
			t.Fatal(err)
		}
		end()
	})
}
