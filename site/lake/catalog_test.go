package lake

import "testing"

// After the restore of an earlier database, the lake goes on with the last metadata, also if the metadata that the
// database names, or the files of its snapshot, have been removed meanwhile.
func TestRestoredDatabase(t *testing.T) {
	for name, follow := range map[string]func(w *world){
		"a pass": func(w *world) {
			w.put("r2", 8, day, 5)
			write(t, w)
		},
		"many passes": func(w *world) {
			for range 12 {
				w.put("r2", 8, day, 5)
				write(t, w)
			}
		},
		"forget": func(w *world) {
			w.put("r2", 8, day, 5).record.User = "mallory"
			write(t, w)
			w.remove("r2")
			if _, err := w.opened(t).Forget(t.Context(), []string{"mallory"}, false); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("r1", 7, day, 5)
			write(t, w)
			if _, err := w.db.Exec("CREATE TABLE backup AS SELECT * FROM iceberg_tables"); err != nil {
				t.Fatal(err)
			}
			follow(w)
			if _, err := w.db.Exec("DELETE FROM iceberg_tables; INSERT INTO iceberg_tables SELECT * FROM backup"); err != nil {
				t.Fatal(err)
			}
			write(t, w)
			complete(t, w)
		})
	}
}
