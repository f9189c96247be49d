package main

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/types/typeutil"
)

// goroutines checks every go statement and every call of sync.WaitGroup.Go: the
// function that it starts has to defer a recover before anything that can panic.
var goroutines = &analysis.Analyzer{
	Name:      "goroutines",
	Doc:       "every goroutine has a recover at its top",
	Run:       runGoroutines,
	FactTypes: []analysis.Fact{new(recovers), new(survives)},
}

// recovers is the fact of a function that calls recover: deferred, it stops a panic.
type recovers struct{}

// AFact implements analysis.Fact.
func (*recovers) AFact()         {}
func (*recovers) String() string { return "recovers" }

// survives is the fact of a function that no panic leaves.
type survives struct{}

// AFact implements analysis.Fact.
func (*survives) AFact()         {}
func (*survives) String() string { return "survives" }

type checker struct {
	*analysis.Pass
	bodies  map[*types.Func]*ast.BlockStmt
	visited map[*types.Func]bool // functions that export has seen
}

func runGoroutines(pass *analysis.Pass) (any, error) {
	c := &checker{pass, map[*types.Func]*ast.BlockStmt{}, map[*types.Func]bool{}}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				c.bodies[pass.TypesInfo.Defs[d.Name].(*types.Func)] = d.Body
			}
		}
	}
	for f := range c.bodies {
		c.export(f)
	}
	for _, file := range production(pass) {
		ast.Inspect(file, c.check)
	}
	return nil, nil
}

// export determines the facts of a function of this package.
func (c *checker) export(f *types.Func) {
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

// check reports a goroutine that does not recover from a panic.
func (c *checker) check(n ast.Node) bool {
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
		c.Reportf(n.Pos(), "a panic of this goroutine would end the program: defer a recover first")
	}
	return true
}

// safe reports whether a function that is started stops its panics.
func (c *checker) safe(started ast.Expr) bool {
	if lit, ok := astutil.Unparen(started).(*ast.FuncLit); ok {
		return c.survives(lit.Body)
	}
	return c.has(started, new(survives))
}

// survives reports whether a body defers a recover before anything that could panic,
// or only calls a function that does so itself.
func (c *checker) survives(body *ast.BlockStmt) bool {
	for i, s := range body.List {
		switch s := s.(type) {
		case *ast.DeferStmt:
			if c.endsPanic(s.Call) {
				return true
			}
		case *ast.DeclStmt: // a variable that the recover sets
		case *ast.AssignStmt:
			isAssignment := s.Tok == token.DEFINE || s.Tok == token.ASSIGN
			if !isAssignment || !plain(s.Rhs) {
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

// safeCall reports whether e calls a function that survives its panics.
func (c *checker) safeCall(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && c.has(call.Fun, new(survives))
}

// plain reports whether expressions are only names and literals.
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

// endsPanic reports whether a deferred call is one that recovers.
func (c *checker) endsPanic(call *ast.CallExpr) bool {
	if lit, ok := call.Fun.(*ast.FuncLit); ok {
		return c.callsRecover(lit.Body)
	}
	return c.has(call.Fun, new(recovers))
}

// has reports whether the function that an expression names has a fact.
func (c *checker) has(e ast.Expr, fact analysis.Fact) bool {
	f := typeutil.StaticCallee(c.TypesInfo, &ast.CallExpr{Fun: e})
	if f == nil {
		return false
	}
	f = f.Origin()
	if f.Pkg() == c.Pkg {
		c.export(f)
	}
	return c.ImportObjectFact(f, fact)
}

// callsRecover reports whether a body calls recover directly, as the language requires.
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
