package rt

import (
	"testing"
)

// The memory of a tree is its PSS. Without it, the resident sets are the most, but never more than the node uses.
func TestTreeMemory(t *testing.T) {
	node := NodeReading{MemTotal: Some[uint64](1000), MemFree: Some[uint64](400)}
	unread := NodeReading{}
	for _, tt := range []struct {
		name     string
		tree     TreeReading
		node     *NodeReading
		want     Opt[uint64]
		isAtMost bool
	}{
		{"PSS", TreeReading{RSS: Some[uint64](900), PSS: Some[uint64](100)}, &node, Some[uint64](100), false},
		{"RSS", TreeReading{RSS: Some[uint64](500)}, &node, Some[uint64](500), true},
		{"more than the node uses", TreeReading{RSS: Some[uint64](900)}, &node, Some[uint64](600), true},
		{"the node was not read", TreeReading{RSS: Some[uint64](900)}, &unread, Some[uint64](900), true},
		{"zombies", TreeReading{RSS: Some[uint64](0)}, &node, Some[uint64](0), false},
		{"nothing was read", TreeReading{}, &node, None[uint64](), false},
	} {
		got, isAtMost := tt.tree.Memory(tt.node)
		if got != tt.want || isAtMost != tt.isAtMost {
			t.Errorf("%s: %v, at most %v", tt.name, got, isAtMost)
		}
	}
}
