package auth

import (
	"context"
	"errors"
	"testing"

	"github.com/resource-tracker/rt/site"
)

// The requests of one address take half of the turns, on any port and in both forms of the address.
func TestTurnsOfOneAddress(t *testing.T) {
	m := NewMunge("unmunge", "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var leave []func()
	for _, remote := range []string{"10.0.0.1:1", "10.0.0.1:2", "[::ffff:10.0.0.1]:3", "10.0.0.1:4"} {
		end, err := m.turn(t.Context(), remote)
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, end)
	}
	if _, err := m.turn(ended, "10.0.0.1:5"); !errors.Is(err, site.ErrBusy) {
		t.Errorf("a fifth turn of one address: %v", err)
	}
	for range mungeMax - mungeMaxOfAddress {
		end, err := m.turn(t.Context(), "10.0.0.2:1")
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, end)
	}
	if _, err := m.turn(ended, "10.0.0.3:1"); !errors.Is(err, site.ErrBusy) {
		t.Errorf("a turn more than all: %v", err)
	}
	for _, end := range leave {
		end()
	}
	if _, err := m.turn(ended, "10.0.0.1:6"); err != nil {
		t.Errorf("a turn after the others: %v", err)
	}
}
