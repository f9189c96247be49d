package main

import (
	"log"
	"sync"
	"time"
)

const (
	sparseTime = time.Minute // in which an event is logged once
	sparseKeys = 1024        // kinds of events that are counted, each for itself
)

// sparseLog logs an event once a minute, and then how many it has left out. Its memory is bounded.
type sparseLog struct {
	logger *log.Logger
	mu     sync.Mutex
	left   map[string]int // how many were left out of the events that were logged in the last minute
}

func newSparseLog(logger *log.Logger) *sparseLog {
	return &sparseLog{logger: logger, left: map[string]int{}}
}

// note logs an event with a detail, unless it was logged in the last minute.
func (s *sparseLog) note(event, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, isKnown := s.left[event]
	if isFull := !isKnown && len(s.left) >= sparseKeys; isFull {
		event = "events of further kinds"
		n, isKnown = s.left[event]
	}
	if isKnown {
		s.left[event] = n + 1
		return
	}
	s.left[event] = 0
	s.logger.Printf("%s: %s", event, detail)
	time.AfterFunc(sparseTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(event)
	})
}

// end logs how many events were left out.
func (s *sparseLog) end(event string) {
	if n := s.left[event]; n > 0 {
		s.logger.Printf("%s: %d more in a minute", event, n)
	}
	delete(s.left, event)
}

// close logs how many events were left out until now.
func (s *sparseLog) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for event := range s.left {
		s.end(event)
	}
}
