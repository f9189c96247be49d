package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzer reports goroutines of code that is shipped whose panic would end the program.
var Analyzer = &analysis.Analyzer{
	Name:      "survives",
	Doc:       "every goroutine has a recover at its top",
	Run:       run,
	FactTypes: []analysis.Fact{new(recovers), new(survives)},
}

// recovers is the fact of a function that calls recover: deferred, it ends a panic.
type recovers struct{}

// AFact implements analysis.Fact.
func (*recovers) AFact()         {}
func (*recovers) String() string { return "recovers" }

// survives is the fact of a function out of which no panic comes.
type survives struct{}

// AFact implements analysis.Fact.
func (*survives) AFact()         {}
func (*survives) String() string { return "survives" }

type checker struct {
	*analysis.Pass
	bodies  map[*types.Func]*ast.BlockStmt
	visited map[*types.Func]bool // whose facts are known, or being found out
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{pass, map[*types.Func]*ast.BlockStmt{}, map[*types.Func]bool{}}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				c.bodies[pass.TypesInfo.Defs[d.Name].(*types.Func)] = d.Body
			}
		}
	}
	for f := range c.bodies {
		c.learn(f)
	}
	for _, file := range pass.Files {
		if name := pass.Fset.File(file.FileStart).Name(); !strings.HasSuffix(name, "_test.go") && !strings.Contains(pass.Pkg.Path(), "/e2e/") {
			ast.Inspect(file, c.look)
		}
	}
	return nil, nil
}

// learn finds the facts of a function of this package.
func (c *checker) learn(f *types.Func) {
	body := c.bodies[f]
	if body == nil || c.visited[f] {
		return
	}
	c.visited[f] = true
	if c.callsRecover(body) {
		c.ExportObjectFact(f, new(recovers))
	}
	if c.survives(body) {
		c.ExportObjectFact(f, new(survives))
	}
}

// look reports a goroutine that survives no panic.
func (c *checker) look(n ast.Node) bool {
	var started ast.Expr
	switch n := n.(type) {
	case *ast.GoStmt:
		started = n.Call.Fun
	case *ast.CallExpr:
		if f := typeutil.StaticCallee(c.TypesInfo, n); f != nil && f.FullName() == "(*sync.WaitGroup).Go" {
			started = n.Args[0]
		}
	}
	if started != nil && !c.safe(started) {
		c.Reportf(n.Pos(), "a panic of this goroutine would end the program: have it defer a recover first")
	}
	return true
}

// safe says whether a function that is started survives its panics.
func (c *checker) safe(started ast.Expr) bool {
	if lit, ok := astutil.Unparen(started).(*ast.FuncLit); ok {
		return c.survives(lit.Body)
	}
	return c.has(started, new(survives))
}

// survives says whether a body defers a recover before it does anything that could
// panic, or does nothing but call a function that does so itself.
func (c *checker) survives(body *ast.BlockStmt) bool {
	for i, s := range body.List {
		switch s := s.(type) {
		case *ast.DeferStmt:
			if c.endsPanic(s.Call) {
				return true
			}
		case *ast.DeclStmt: // a variable that the recover hands on
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && s.Tok != token.ASSIGN || !plain(s.Rhs) {
				return false
			}
		case *ast.ExprStmt:
			return i == len(body.List)-1 && c.safeCall(s.X)
		case *ast.SendStmt:
			return i == len(body.List)-1 && c.safeCall(s.Value)
		default:
			return false
		}
	}
	return len(body.List) == 0
}

// safeCall says whether e calls a function that survives its panics.
func (c *checker) safeCall(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && c.has(call.Fun, new(survives))
}

// plain says whether expressions are names and values alone.
func plain(list []ast.Expr) bool {
	for _, e := range list {
		switch e.(type) {
		case *ast.Ident, *ast.BasicLit:
		default:
			return false
		}
	}
	return true
}

// endsPanic says whether a deferred call is one that recovers.
func (c *checker) endsPanic(call *ast.CallExpr) bool {
	if lit, ok := call.Fun.(*ast.FuncLit); ok {
		return c.callsRecover(lit.Body)
	}
	return c.has(call.Fun, new(recovers))
}

// has says whether the function that an expression names has a fact.
func (c *checker) has(e ast.Expr, fact analysis.Fact) bool {
	f := typeutil.StaticCallee(c.TypesInfo, &ast.CallExpr{Fun: e})
	if f == nil {
		return false
	}
	f = f.Origin()
	if f.Pkg() == c.Pkg {
		c.learn(f)
	}
	return c.ImportObjectFact(f, fact)
}

// callsRecover says whether a body calls recover itself, where alone it does anything.
func (c *checker) callsRecover(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, nested := n.(*ast.FuncLit); nested {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if b, ok := typeutil.Callee(c.TypesInfo, call).(*types.Builtin); ok && b.Name() == "recover" {
				found = true
			}
		}
		return !found
	})
	return found
}
