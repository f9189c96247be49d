package lake

import (
	"os"
	"runtime/debug"
	"testing"
)

// A third of the time of the tests was garbage collection: a table has hundreds of columns.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
