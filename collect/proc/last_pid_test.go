package proc

import "testing"

func TestLastPID(t *testing.T) {
	root := fixture(t)
	n := NewLastPID(root)
	defer n.Close()
	for text, want := range map[string]uint64{"0.00 0.01 0.05 2/115 8123\n": 8123, "1.00 1.00 1.00 1/2 \n": 0, "\n": 0} {
		write(t, root.Proc+"/loadavg", text)
		pid, ok := n.Read()
		if pid != want || ok != (want != 0) {
			t.Errorf("%q: %d, %t", text, pid, ok)
		}
	}
	if _, ok := NewLastPID(NewFS(t.TempDir(), "")).Read(); ok {
		t.Error("without the file")
	}
}
