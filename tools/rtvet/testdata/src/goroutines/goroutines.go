package goroutines

import (
	"b"
	"sync"
)

type thing struct{ done chan struct{} }

func (t *thing) run() { // want run:"survives"
	defer close(t.done)
	defer t.survive()
	println()
}

func (t *thing) survive() { _ = recover() } // want survive:"recovers"

func (t *thing) nested() {
	defer func() {
		func() { _ = recover() }() // which recovers nothing
	}()
}

func (t *thing) late() {
	println()
	defer t.survive()
}

func (t *thing) loop() {
	for {
		t.run()
	}
}

func (t *thing) answer() (n int) { // want answer:"survives"
	defer func() { _ = recover() }()
	return 1
}

func goroutines(t *thing, f func(), answers chan int, all *sync.WaitGroup) {
	go t.run()
	go b.Safe()
	go func() { defer close(t.done); t.run() }()
	go func() {
		found := t
		defer func() {
			if recover() != nil {
				found = nil
			}
			println(found)
		}()
		println()
	}()
	all.Go(t.run)
	all.Go(func() { b.Safe() })

	go func() { answers <- t.answer() }()

	go b.Unsafe()                 // want "a panic of this goroutine"
	go f()                        // want "a panic of this goroutine"
	go t.nested()                 // want "a panic of this goroutine"
	go t.late()                   // want "a panic of this goroutine"
	go t.loop()                   // want "a panic of this goroutine"
	go func() { println() }()     // want "a panic of this goroutine"
	go func() { t.run(); f() }()  // want "a panic of this goroutine"
	all.Go(f)                     // want "a panic of this goroutine"
	all.Go(func() { b.Unsafe() }) // want "a panic of this goroutine"
}
