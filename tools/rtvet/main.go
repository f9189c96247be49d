// Rtvet is the project's own checks:
//
//   - goroutines: every goroutine recovers from a panic, which would end the program
//   - conditions: an expression with both && and || has a name
//   - initstmt: the init statement of an if or a switch declares something
//   - length: a function has at most 80 lines
//   - sentences: a sentence of a comment has at most 25 words
//
// Test files and the packages below e2e are exempt.
//
//	build/tools/rtvet ./...
package main

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"
)

func main() { multichecker.Main(goroutines, conditions, initStatements, length, sentences) }

// production returns the files of a package that the checks hold.
func production(pass *analysis.Pass) []*ast.File {
	if strings.Contains(pass.Pkg.Path()+"/", "/e2e/") {
		return nil
	}
	var files []*ast.File
	for _, file := range pass.Files {
		if name := pass.Fset.File(file.FileStart).Name(); !strings.HasSuffix(name, "_test.go") {
			files = append(files, file)
		}
	}
	return files
}
