package cgroup

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypeSize holds the types of this directory at 20 fields and 30 methods.
func TestTypeSize(t *testing.T) {
	const maxFields, maxMethods = 20, 30
	for _, dir := range []string{".", "counters", "watch", "tasks", "pressure"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		fields, methods := map[string]int{}, map[string]int{}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if s, ok := n.Type.(*ast.StructType); ok {
						for _, f := range s.Fields.List {
							fields[n.Name.Name] += max(1, len(f.Names))
						}
					}
				case *ast.FuncDecl:
					if n.Recv != nil {
						methods[receiver(n.Recv.List[0].Type)]++
					}
				}
				return true
			})
		}
		for name, n := range fields {
			if n > maxFields {
				t.Errorf("%s: %s has %d fields, the maximum is %d", dir, name, n, maxFields)
			}
		}
		for name, n := range methods {
			if n > maxMethods {
				t.Errorf("%s: %s has %d methods, the maximum is %d", dir, name, n, maxMethods)
			}
		}
	}
}

func receiver(t ast.Expr) string {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	return t.(*ast.Ident).Name
}
