package main

import (
	"os"
	"testing"
)

// TestReadyHasEnded: the Prolog waits as long as it has the reading end of the pipe.
func TestReadyHasEnded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	prolog := &ready{pipe: w}
	if prolog.hasEnded() {
		t.Error("a Prolog that waits has ended")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !prolog.hasEnded() {
		t.Error("a Prolog that has closed the pipe still waits")
	}
	prolog.send("ready")
	if !prolog.hasEnded() {
		t.Error("a Prolog that was notified still waits")
	}
}
