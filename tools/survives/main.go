// Survives is a check for go vet: a panic in a goroutine ends the whole program,
// unless that goroutine recovers from it. So every go statement, and every call of
// sync.WaitGroup.Go, has to start a function that defers a recover before all else
// can happen.
//
//	go vet -vettool=build/tools/survives ./...
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(Analyzer) }
