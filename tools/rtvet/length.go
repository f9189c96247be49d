package main

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// maxLines is the number of lines from a function's func to its closing brace.
const maxLines = 80

var length = &analysis.Analyzer{
	Name: "length",
	Doc:  "a function has at most 80 lines",
	Run:  runLength,
}

func runLength(pass *analysis.Pass) (any, error) {
	for _, file := range production(pass) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if lines := pass.Fset.Position(f.End()).Line - pass.Fset.Position(f.Pos()).Line + 1; lines > maxLines {
				pass.Reportf(f.Pos(), "%s has %d lines: at most %d", f.Name.Name, lines, maxLines)
			}
		}
	}
	return nil, nil
}
