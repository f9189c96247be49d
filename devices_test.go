package rt

import (
	"slices"
	"testing"
)

func TestWire(t *testing.T) {
	plain := func(names ...string) (list []NetReading) {
		for _, name := range names {
			list = append(list, NetReading{Name: name})
		}
		return list
	}
	device := func(name, driver, mac string) NetReading { return NetReading{Name: name, Driver: driver, MAC: mac} }
	tests := []struct {
		name string
		nets []NetReading
		want []string
	}{
		{"a bond of a node", append(plain("bond0", "bond0.100", "br0"), device("eno1", "ice", "a"), device("eno2", "ice", "a")), []string{"eno1", "eno2"}},
		{"containers on a node", append(plain("docker0", "br-1f2e", "veth12ab", "tailscale0", "cali1"), device("eth0", "ena", "b")), []string{"eth0"}},
		{"InfiniBand and its partition", []NetReading{device("ib0", "mlx5_core", "c"), device("ib0.8001", "mlx5_core", "d")}, []string{"ib0", "ib0.8001"}},
		{"Azure with a virtual function", []NetReading{device("eth0", "hv_netvsc", "e"), device("enP1s0", "mlx5_core", "e"), device("eth1", "hv_netvsc", "f")}, []string{"enP1s0", "eth1"}},
		{"/sys is not there", plain("eno1", "eno2", "bond0", "bond0.100", "br0"), []string{"eno1", "eno2"}},
		{"VLANs and a name with a dot", plain("eth0", "eth0.5", "vlan7", "my.net"), []string{"eth0", "my.net"}},
		{"a container", plain("eth0"), []string{"eth0"}},
		{"a container without root", plain("tap0"), []string{"tap0"}},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		var got []string
		wire := NewWire(tt.nets)
		for i := range tt.nets {
			if wire.Has(i) {
				got = append(got, tt.nets[i].Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Section 7.2 sums over all interfaces: the row has what the node's sum leaves out.
func TestScalarsIncludeVirtualInterfaces(t *testing.T) {
	at := func(n uint64) *Snapshot {
		s := &Snapshot{Boot: int64(n)}
		for _, name := range []string{"eno1", "bond0", "bond0.100", "br0"} {
			s.Nets = append(s.Nets, NetReading{Name: name, RxBytes: Some(n * 1_000_000), TxBytes: Some(n * 10)})
		}
		s.Node.NetRxBytes, s.Node.NetTxBytes = Some(n*1_000_000), Some(n*10)
		return s
	}
	if s := DeriveScalars(at(1), at(2), ScopeNode); s.NetRecvBytes != Some[uint64](4_000_000) || s.NetSentBytes != Some[uint64](40) {
		t.Errorf("received %v, sent %v", s.NetRecvBytes, s.NetSentBytes)
	}
	unread := at(2)
	unread.Node.NetRxBytes.Clear()
	if s := DeriveScalars(at(1), unread, ScopeNode); s.NetRecvBytes.Valid() || !s.NetSentBytes.Valid() {
		t.Errorf("without the sum: received %v, sent %v", s.NetRecvBytes, s.NetSentBytes)
	}
}
