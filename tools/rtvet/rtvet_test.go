package main

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzers(t *testing.T) {
	for _, a := range []*analysis.Analyzer{goroutines, conditions, initStatements, length, sentences} {
		t.Run(a.Name, func(t *testing.T) { analysistest.Run(t, analysistest.TestData(), a, a.Name) })
	}
}
