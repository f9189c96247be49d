package host

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

func TestPackages(t *testing.T) {
	a, err := txtar.ParseFile("testdata/packages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	all, err := NewRoots(filepath.Join(dir, "proc"), filepath.Join(dir, "sys")).Packages()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []Package{{CPUs: []int{0, 1, 4, 5}}, {CPUs: []int{2, 3, 6}}} {
		if p := &all[i]; p.ID != i || p.Model != "AMD EPYC 9354" || p.Cores != 2 || !slices.Equal(p.CPUs, want.CPUs) {
			t.Errorf("package %d is %+v", i, p)
		}
	}
	total, used := all[0].Memory()
	if total != rt.Some[uint64](1000<<10) || used != rt.Some[uint64](300<<10) {
		t.Errorf("memory of the first package: %v of %v", used, total)
	}
	if total, used := all[1].Memory(); total.Valid() || used.Valid() {
		t.Errorf("memory of a node with a missing line in its file: %v of %v", used, total)
	}
	if all, err := NewRoots(dir, dir).Packages(); err == nil {
		t.Errorf("a machine without files has %+v", all)
	}
}
