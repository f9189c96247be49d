package upload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// The bytes of sealed batches equal the bytes of other versions. So a run whose first batches come
// from another version continues with the same rows.
func TestTheBytesOfBatchesStay(t *testing.T) {
	const golden = `job
1 2-34 30 745 6c2d07ba3a2fcf9eedbde451cb3512a28874e1309b715dff544486fc0fc94427
2 35-71 30 769 c00d53b04918f42bfc1456515dcbde4ba91706993d5c54463b53201312c47729
3 72-100 23 653 72072a30277cc18bc636d242c71a64bc47086b08c71fbf3ee5843444b47b01e5
node
1 2-34 30 532 02500fa1a4d1d6d13d26083c8b6e056f24e7ce1f9b499144750dd497b0c9493a
2 35-71 30 544 e1476462afe2a4a335c2d42bcbb8bb13dd4daa58aa66e524697cb25a8ec2d2d0
3 72-100 23 473 16fac2b703e71250c21f50e07589f754d4bd2f86ee1c3359f23eb186bf2fe963
`
	var got strings.Builder
	for _, scope := range []rt.Scope{rt.ScopeJob, rt.ScopeNode} {
		r := newRun(1, 100)
		if _, err := drain(t, dirOf(r), &fakeClient{}, upload.DrainOptions{BatchRows: 30, Scope: scope}); err != nil {
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
