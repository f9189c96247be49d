package lake

import (
	"maps"
	"slices"
	"testing"

	"github.com/apache/iceberg-go/table"
)

// A tag of an engine does not keep the rows of a forgotten user.
func TestForgetReachesTags(t *testing.T) {
	w := newWorld(t)
	r := w.put("r1", 7, day, 5)
	r.record.User = "mallory"
	write(t, w)
	for _, name := range []string{"runs", "samples"} {
		tag := table.NewSetSnapshotRefUpdate("audit", w.load(t, name).CurrentSnapshot().SnapshotID, table.TagRef, 0, 0, 0)
		if _, _, err := w.catalog(t).CommitTable(t.Context(), table.Identifier{namespace, name}, nil, []table.Update{tag}); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := w.opened(t).Forget(t.Context(), []string{"mallory"}, false); err != nil || done.Removed != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	nowhere(t, w, "mallory", r.Name)
	if refs := slices.Collect(maps.Keys(maps.Collect(w.load(t, "runs").Metadata().Refs()))); !slices.Equal(refs, []string{table.MainBranch}) {
		t.Errorf("the table has the branches and tags %q", refs)
	}
}
