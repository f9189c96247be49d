package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/resource-tracker/rt/site"
)

// store is what Dir and S3 have in common.
type store interface {
	Put(ctx context.Context, name string, size int64, body io.Reader) error
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error]
}

const runA, runB = "20261123t101500-aaaaaaaaaaaaaaaaaaaaaaaaaa", "20261123t101500-bbbbbbbbbbbbbbbbbbbbbbbbbb"

// random returns bytes that do not compress, the same ones in each run of the tests.
func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func nameOf(run string, body []byte) string { return fmt.Sprintf("%s/%x", run, sha256.Sum256(body)) }

func put(t *testing.T, s store, name string, body []byte) {
	t.Helper()
	if err := s.Put(t.Context(), name, int64(len(body)), bytes.NewReader(body)); err != nil {
		t.Error(err)
	}
}

// holds reports an error unless the name has exactly these bytes; nil: unless there is no object.
func holds(t *testing.T, s store, name string, want []byte) {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if want == nil {
		if !errors.Is(err, site.ErrNotFound) {
			t.Errorf("%s: %v, want %v", name, err, site.ErrNotFound)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, which are not the %d stored ones, or an error: %v", name, len(got), len(want), err)
	}
}

// list returns the names and sizes, sorted.
func list(t *testing.T, s store, prefix string) []string {
	t.Helper()
	found := []string{}
	for i, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		if i.Modified.IsZero() {
			t.Errorf("%s has no time", i.Name)
		}
		found = append(found, fmt.Sprintf("%s %d", i.Name, i.Bytes))
	}
	slices.Sort(found)
	return found
}

// testStore is the test that all stores pass. The store is empty.
func testStore(t *testing.T, s store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store)
	}{
		{"stored and read", testPut}, {"concurrent", testConcurrent}, {"wrong size", testWrongSize}, {"broken body", testBrokenBody},
		{"list", testList}, {"names", testNames}, {"cancelled", testCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s)
			for i, err := range s.List(t.Context(), "") {
				if err == nil {
					err = s.Delete(t.Context(), i.Name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if left := list(t, s, ""); len(left) != 0 {
				t.Errorf("after all objects were deleted there are %q", left)
			}
		})
	}
}

func testPut(t *testing.T, s store) {
	for _, size := range []int{0, 1, 65536, 65537, 20 << 20} { // minio-go sends more than 16 MiB in parts, if it may
		body := random(size)
		name := nameOf(runA, body)
		holds(t, s, name, nil)
		put(t, s, name, body)
		holds(t, s, name, body)
		put(t, s, name, body)
		holds(t, s, name, body)
		if err := s.Put(t.Context(), nameOf(runB, body), int64(size), io.MultiReader(bytes.NewReader(body))); err != nil { // no Seeker
			t.Error(err)
		}
		holds(t, s, nameOf(runB, body), body)
		for range 2 {
			if err := s.Delete(t.Context(), name); err != nil {
				t.Error(err)
			}
			holds(t, s, name, nil)
		}
	}
	at := bytes.NewReader([]byte("a header, a body")) // a body is read from its position on
	if _, err := at.Seek(10, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), runA+"/part", 6, at); err != nil {
		t.Error(err)
	}
	holds(t, s, runA+"/part", []byte("a body"))
	put(t, s, runA+"/part", []byte("another body"))
	holds(t, s, runA+"/part", []byte("another body"))
	holds(t, s, runA, nil)
}

// Puts of the same name, and deletions in the same directory, do not affect each other.
func testConcurrent(t *testing.T, s store) {
	body := random(3000)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 10 {
				put(t, s, runA+"/same", body)
				own := fmt.Sprintf("%s/%d", runB, n)
				put(t, s, own, body)
				holds(t, s, own, body)
				holds(t, s, runA+"/same", body)
				if err := s.Delete(t.Context(), own); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, want := list(t, s, ""), []string{runA + "/same 3000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func testWrongSize(t *testing.T, s store) {
	body := random(100_000)
	for _, size := range []int64{-1, 0, 1, 99_999, 100_001, 1 << 30} {
		for _, r := range []io.Reader{bytes.NewReader(body), io.MultiReader(bytes.NewReader(body))} {
			name := nameOf(runA, body)
			if err := s.Put(t.Context(), name, size, r); err == nil {
				t.Errorf("a body of 100000 bytes was stored as one of %d", size)
			}
			holds(t, s, name, nil)
		}
	}
	put(t, s, runA+"/good", body)
	if err := s.Put(t.Context(), runA+"/good", 7, bytes.NewReader(body)); err == nil {
		t.Error("a body with more bytes was stored")
	}
	holds(t, s, runA+"/good", body)
}

// failing is a body that ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func testBrokenBody(t *testing.T, s store) {
	broken := errors.New("the connection of the client is broken")
	body := io.MultiReader(bytes.NewReader(random(70_000)), failing{broken})
	if err := s.Put(t.Context(), runA+"/broken", 100_000, body); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	holds(t, s, runA+"/broken", nil)
}

func testList(t *testing.T, s store) {
	for _, prefix := range []string{"", runA, runA + "/", runA + "/0"} {
		if got := list(t, s, prefix); len(got) != 0 {
			t.Errorf("an empty store lists %q", got)
		}
	}
	parts := 11 // a page of S3 has 1000 objects
	if testing.Short() {
		parts = 2
	}
	inA := make([]string, 0, parts*100)
	var puts sync.WaitGroup
	for part := range parts {
		for n := range 100 {
			inA = append(inA, fmt.Sprintf("%s/%04d 0", runA, part*100+n))
		}
		names := inA[part*100:]
		puts.Go(func() {
			for _, name := range names {
				put(t, s, strings.TrimSuffix(name, " 0"), nil)
			}
		})
	}
	puts.Wait()
	put(t, s, runB+"/x", []byte("12345"))
	put(t, s, "top", []byte("1"))
	all := append(slices.Clone(inA), runB+"/x 5", "top 1")
	for _, test := range []struct {
		prefix string
		want   []string
	}{
		{"", all}, {runA, inA}, {runA + "/", inA}, {runA + "/000", inA[:10]}, {"2026", all[:len(inA)+1]},
		{runB + "/", all[len(inA) : len(inA)+1]}, {runB + "/x/y", nil}, {"t", all[len(inA)+1:]}, {"no", nil},
	} {
		if got := list(t, s, test.prefix); !slices.Equal(got, test.want) {
			t.Errorf("%q: %d objects %.200q, want %d", test.prefix, len(got), got, len(test.want))
		}
	}
	for range s.List(t.Context(), "") { // a list may end early
		break
	}
}

func testNames(t *testing.T, s store) {
	bad := []string{
		"", "/", "//", "a/", "/a", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", ".new", ".new/a", "a/.hidden", "...",
		"a\x00b", "\x00", "a b", "a\nb", "a\\b", `C:\a`, "%2e%2e/a", "ä", "a\xff", "a*", "~", "-rf /",
		strings.Repeat("a", maxSegment+1), strings.Repeat("a/", 300) + "a",
	}
	for _, name := range bad {
		if err := s.Put(t.Context(), name, 1, strings.NewReader("x")); err == nil {
			t.Errorf("an object was stored under %q", name)
		}
		r, err := s.Get(t.Context(), name)
		if err == nil || errors.Is(err, site.ErrNotFound) {
			t.Errorf("%q was looked up", name)
		}
		if r != nil {
			_ = r.Close()
		}
		if err := s.Delete(t.Context(), name); err == nil {
			t.Errorf("%q was deleted", name)
		}
		if name == "" || name == "a/" { // the prefix of all, and of those in a
			continue
		}
		for i, err := range s.List(t.Context(), name) {
			if err == nil {
				t.Errorf("%q was listed: %v", name, i)
			}
		}
	}
	for _, name := range []string{"-", "_", "a..b", "a.", "0/1/2/3", strings.Repeat("a", maxSegment), runA + "/inline.csv.gz"} {
		put(t, s, name, []byte(name))
		holds(t, s, name, []byte(name))
	}
}

func testCancelled(t *testing.T, s store) {
	put(t, s, runA+"/old", []byte("old"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, runA+"/new", 3, strings.NewReader("new")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	holds(t, s, runA+"/new", nil)
	var last error
	for _, err := range s.List(ctx, "") {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("%v, want %v", last, context.Canceled)
	}
}
