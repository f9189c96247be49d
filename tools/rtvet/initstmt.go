package main

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"
)

var initStatements = &analysis.Analyzer{
	Name: "initstmt",
	Doc:  "the init statement of an if or a switch declares something",
	Run:  runInitStatements,
}

func runInitStatements(pass *analysis.Pass) (any, error) {
	for _, file := range production(pass) {
		ast.Inspect(file, func(n ast.Node) bool {
			var init ast.Stmt
			switch n := n.(type) {
			case *ast.IfStmt:
				init = n.Init
			case *ast.SwitchStmt:
				init = n.Init
			case *ast.TypeSwitchStmt:
				init = n.Init
			}
			if init == nil {
				return true
			}
			if assign, ok := init.(*ast.AssignStmt); !ok || assign.Tok != token.DEFINE {
				pass.Reportf(init.Pos(), "this init statement declares nothing: write it as a statement of its own")
			}
			return true
		})
	}
	return nil, nil
}
