package upload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// The bytes of sealed batches are those of earlier versions: a run of which the first
// batches were uploaded by an older version continues with the same rows.
func TestTheBytesOfBatchesStay(t *testing.T) {
	const golden = `job
1 2-34 30 565 d4933d93ce52c2729d84aa17c206d85439a55320f1870e8833f1fa102001d07c
2 35-71 30 587 c48d1e60889ea4cd2a5ef7cd7f9858b43a14b730ccf7695db7950a33fa6673de
3 72-100 23 495 ca0494ef5b427e6461727af315823198561b89953e779c3d8b1c2c0f8ef80f2b
node
1 2-34 30 399 d50e823ef3893187fe1d59e1f6d4ac35f756500ca91aad11ba3e45090032d7a5
2 35-71 30 405 9321c5c01cb45c4db45091300e0f11ef52b99721ba8350df6a66514cb24db755
3 72-100 23 352 d1a74b3e5bf1606644eeeec8050828172090820bb8d542d536f0ae220ec747a8
`
	var got strings.Builder
	for _, scope := range []rt.Scope{rt.ScopeJob, rt.ScopeNode} {
		r := newRun(1, 100)
		if _, err := drain(t, dirOf(r), &fakeClient{}, upload.Options{BatchRows: 30, Scope: scope}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&got, scope)
		for _, b := range r.batches {
			fmt.Fprintf(&got, "%d %d-%d %d %d %s\n", b.Number, b.FirstSeq, b.LastSeq, b.Rows, b.Bytes, b.SHA256)
		}
	}
	if got.String() != golden {
		t.Errorf("batches:\n%swant:\n%s", got.String(), golden)
	}
}
