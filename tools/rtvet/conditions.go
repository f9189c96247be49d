package main

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"
)

var conditions = &analysis.Analyzer{
	Name: "conditions",
	Doc:  "an expression with both && and || is the value of one name, or all that a predicate returns",
	Run:  runConditions,
}

func runConditions(pass *analysis.Pass) (any, error) {
	for _, file := range production(pass) {
		checked := map[ast.Expr]bool{} // named, or a part of a larger condition
		ast.Inspect(file, func(n ast.Node) bool {
			for _, e := range definitions(n) {
				check(e, checked)
			}
			if e, ok := n.(ast.Expr); ok && !checked[e] && check(e, checked) {
				pass.Reportf(e.Pos(), "this mixes && and ||: give one part a name")
			}
			return true
		})
	}
	return nil, nil
}

// definitions returns the expressions that n gives a name: the value of a variable,
// or the only statement of a function.
func definitions(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Rhs
	case *ast.ValueSpec:
		return n.Values
	case *ast.FuncDecl:
		return onlyReturn(n.Body)
	case *ast.FuncLit:
		return onlyReturn(n.Body)
	}
	return nil
}

func onlyReturn(body *ast.BlockStmt) []ast.Expr {
	if body == nil || len(body.List) != 1 {
		return nil
	}
	if r, ok := body.List[0].(*ast.ReturnStmt); ok {
		return r.Results
	}
	return nil
}

// check reports whether the condition e has both operators, and marks its parts. What
// stands inside calls and function literals is a condition of its own.
func check(e ast.Expr, checked map[ast.Expr]bool) bool {
	found := map[token.Token]bool{}
	var visit func(ast.Expr)
	visit = func(e ast.Expr) {
		checked[e] = true
		switch e := e.(type) {
		case *ast.ParenExpr:
			visit(e.X)
		case *ast.UnaryExpr:
			visit(e.X)
		case *ast.BinaryExpr:
			if e.Op == token.LAND || e.Op == token.LOR {
				found[e.Op] = true
				visit(e.X)
				visit(e.Y)
			}
		}
	}
	visit(e)
	return found[token.LAND] && found[token.LOR]
}
