package proc

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

func u64(v uint64) rt.Opt[uint64] { return rt.Some(v) }

func TestNet(t *testing.T) {
	s := once(t, NewNet(fixture(t)))
	want := []rt.NetReading{
		{
			Name: "eth0", RxBytes: u64(243210305), TxBytes: u64(568339), MAC: "00:11:22:33:44:55",
			Driver: "ice", OperState: "up", SpeedMbps: rt.Some[int64](25000), MTU: u64(9000),
		},
		{
			Name: "ib0", RxBytes: u64(1000), TxBytes: u64(2000), MAC: "80:00:00:48:fe:80",
			Driver: "mlx5_core", OperState: "down", SpeedMbps: rt.Some[int64](-1), MTU: u64(2044),
		},
	}
	if d := cmp.Diff(want, s.Nets, opts); d != "" {
		t.Errorf("interfaces (-want +got):\n%s", d)
	}
	if rx, tx := s.Node.NetRxBytes.Or(0), s.Node.NetTxBytes.Or(0); rx != 243211305 || tx != 570339 {
		t.Errorf("sums %d, %d", rx, tx)
	}
}

// netDev is a file of interfaces with the same count received and sent.
func netDev(pairs ...any) string {
	var b strings.Builder
	b.WriteString("Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n")
	for i := 0; i < len(pairs); i += 2 {
		n := pairs[i+1].(string)
		b.WriteString("  " + pairs[i].(string) + ": " + n + " 0 0 0 0 0 0 0 " + n + " 0 0 0 0 0 0 0\n")
	}
	return b.String()
}

// Interfaces appear, vanish, swap places and restart: the sums grow by what each counted
// while it existed.
func TestNetSums(t *testing.T) {
	root := fixture(t)
	src := NewNet(root)
	for _, step := range []struct {
		file string
		want uint64
	}{
		{netDev("lo", "5", "a", "100", "b", "50"), 150},    // the plain sum
		{netDev("lo", "9", "a", "110", "b", "50"), 160},    // a +10
		{netDev("b", "60", "a", "120"), 180},               // other places, +10 +10
		{netDev("a", "120", "c", "1000"), 180},             // b vanishes, c appears
		{netDev("a", "130", "c", "1005", "b", "70"), 195},  // b appears again: only a +10, c +5
		{netDev("a", "3", "c", "1005", "b", "71"), 196},    // a restarted, b +1
		{netDev("a", "13", "c", "1005", "b", "71"), 206},   // a +10
		{netDev("lo", "1000"), 206},                        // all vanished
		{netDev("a", "20", "d", "7", "e", "7"), 206},       // all new
		{netDev("e", "8", "d", "7", "a", "20"), 206 + 1},   // e +1
		{netDev("e", "8", "d", "10", "a", "20"), 206 + 4},  // d +3
		{netDev("d", "10", "e", "8", "a", "25"), 206 + 9},  // a +5
		{netDev("d", "10", "e", "8", "a", "25"), 206 + 9},  // nothing
		{netDev("d", "10", "e", "8", "a", "x25"), 206 + 9}, // a cannot be read
	} {
		checkNetSums(t, root, src, step.file, step.want)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// checkNetSums reads the interfaces of a file, and compares the sums of the node.
func checkNetSums(t *testing.T, root FS, src *Net, file string, want uint64) {
	t.Helper()
	write(t, root.Proc+"/net/dev", file)
	var s rt.Snapshot
	err := src.Read(&s)
	if err != nil {
		t.Fatal(err)
	}
	rx, tx := s.Node.NetRxBytes.Or(0), s.Node.NetTxBytes.Or(0)
	if rx != want || tx != want {
		t.Errorf("after\n%s\nthe sums are %d, %d, want %d", file, rx, tx, want)
	}
}

// The ports carry what the bond, the VLAN and the bridge over them count again. A port that leaves
// the bond, and a driver that is reloaded, add nothing twice.
func TestNetSumsOfTheWire(t *testing.T) {
	root := fixture(t)
	src := NewNet(root)
	for _, step := range []struct {
		file string
		want uint64
	}{
		{netDev("eth0", "100", "ib0", "10", "bond0", "100", "bond0.100", "100", "br0", "90", "veth1", "80", "tailscale0", "7"), 110},
		{netDev("eth0", "150", "ib0", "11", "bond0", "150", "bond0.100", "150", "br0", "140", "veth1", "130", "tailscale0", "17"), 161},
		{netDev("bond0", "160", "bond0.100", "160", "br0", "150", "veth1", "140", "tailscale0", "27"), 161 + 10}, // no device: names decide
		{netDev("eth0", "5", "bond0", "170", "bond0.100", "170", "br0", "160", "veth1", "150", "tailscale0", "37"), 171},
		{netDev("eth0", "7", "bond0", "172", "bond0.100", "172", "br0", "162", "veth1", "152", "tailscale0", "39"), 173},
	} {
		checkNetSums(t, root, src, step.file, step.want)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestNetOfAnotherShape(t *testing.T) {
	root := fixture(t)
	write(t, root.Proc+"/net/dev", "eth0: 1 2 3 4 5 6 7 8 9 10\n")
	var s rt.Snapshot
	if err := NewNet(root).Read(&s); err == nil || s.Node.NetRxBytes.Valid() {
		t.Errorf("a file without its heading: %v, %v", s.Node.NetRxBytes, err)
	}
}

// The link state is read again after a minute of readings, and costs nothing then.
func TestNetIdentityIsReadAgain(t *testing.T) {
	root := fixture(t)
	src := NewNet(root)
	var s rt.Snapshot
	read := func() {
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	write(t, root.Sys+"/class/net/eth0/operstate", "down\n")
	for range identityEvery {
		if s.Nets[0].OperState != "up" {
			t.Fatal("the state was read again at once")
		}
		read()
	}
	if s.Nets[0].OperState != "down" {
		t.Error("the state was not read again")
	}
	if n := testing.AllocsPerRun(2*identityEvery, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestDisk(t *testing.T) {
	s := once(t, NewDisk(fixture(t)))
	want := []rt.DiskReading{
		{
			Name: "nvme0n1", Leaf: true, ReadBytes: u64(3245610 * 512), WriteBytes: u64(2459512 * 512),
			Model: "Samsung SSD 990 PRO", Serial: "eui.0025384b21404a1b", Type: "nvme", Capacity: u64(976773168 * 512),
		},
		{
			Name: "sda", Leaf: true, ReadBytes: u64(100 * 512), WriteBytes: u64(200 * 512),
			Model: "ST4000NM0023", Vendor: "SEAGATE", Type: "hdd", Capacity: u64(2000 * 512),
		},
		{Name: "md127", ReadBytes: u64(50 * 512), WriteBytes: u64(60 * 512), Capacity: u64(1000 * 512)},
		{Name: "dm-0", ReadBytes: u64(70 * 512), WriteBytes: u64(80 * 512), Type: "ssd", Capacity: u64(1000 * 512)},
		{Name: "cciss/c0d0", Leaf: true, ReadBytes: u64(512), WriteBytes: u64(512), Capacity: u64(8 * 512)},
	}
	if d := cmp.Diff(want, s.Disks, opts); d != "" {
		t.Errorf("disks (-want +got):\n%s", d)
	}
	if r, w := s.Node.DiskReadBytes.Or(0), s.Node.DiskWriteBytes.Or(0); r != (3245610+100+1)*512 || w != (2459512+200+1)*512 {
		t.Errorf("sums %d, %d: they are not those of the leaves", r, w)
	}
}

// Before Linux 6.2 an NVMe drive with several paths counts nothing itself; later it counts what its
// paths count. A drive without paths that did nothing has zeros.
func TestNVMePaths(t *testing.T) {
	root := fixture(t)
	for name, attributes := range map[string][]string{
		"nvme3n1": {"dev", "259:9", "size", "8"}, "nvme3c0n1": {"hidden", "1", "size", "8"}, "nvme3c17n1": {"hidden", "1", "size", "8"},
		"nvme3n2": {"dev", "259:10", "size", "8"}, "nvme3c0n2": {"hidden", "1", "size", "8"},
		"nvme31n1": {"dev", "259:11", "size", "8"},
	} {
		for ; len(attributes) > 0; attributes = attributes[2:] {
			write(t, root.Sys+"/block/"+name+"/"+attributes[0], attributes[1]+"\n")
		}
	}
	line := func(name, sectors string) string {
		return "0 0 " + name + " 1 1 " + sectors + " 1 1 1 " + sectors + " 1 1 1 1\n"
	}
	src := NewDisk(root)
	for _, step := range []struct {
		file string
		want []uint64 // sectors of the drives, in their order
		sum  uint64
	}{
		{line("nvme3c0n1", "10") + line("nvme3n1", "0") + line("nvme3c17n1", "5") + line("nvme3c0n2", "7") + line("nvme3n2", "7") + line("nvme31n1", "0"), []uint64{15, 7, 0}, 22},
		{line("nvme3c0n1", "12") + line("nvme3n1", "0") + line("nvme3c17n1", "6") + line("nvme3c0n2", "9") + line("nvme3n2", "9") + line("nvme31n1", "1"), []uint64{18, 9, 1}, 28},
		{line("nvme3n1", "0") + line("nvme3c0n1", "13") + line("nvme3n2", "9") + line("nvme31n1", "1"), []uint64{13, 9, 1}, 28}, // a path is gone
		{line("nvme3n1", "0") + line("nvme3c0n1", "14") + line("nvme3n2", "9") + line("nvme31n1", "1"), []uint64{14, 9, 1}, 29},
	} {
		write(t, root.Proc+"/diskstats", step.file)
		var s rt.Snapshot
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, d := range s.Disks {
			got = append(got, d.ReadBytes.Or(0)/512)
		}
		if !slices.Equal(got, step.want) || s.Node.DiskReadBytes != u64(step.sum*512) || s.Node.DiskWriteBytes != u64(step.sum*512) {
			t.Errorf("after\n%s\nthe drives have %v sectors, the sum is %v, want %v, %d", step.file, got, s.Node.DiskReadBytes.Or(0)/512, step.want, step.sum)
		}
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"nvme0n1", "nvme", "nvme0c", "nvme0c1", "nvme0c1p2", "sdc1n1", ""} {
		if head := headOfPath(name); head != "" {
			t.Errorf("%q is taken for a path of %q", name, head)
		}
	}
}

func TestDiskstatsRefused(t *testing.T) {
	for _, l := range []string{"", "8 0 sda", "8 0 sda 1 2 3 4 5 6", "8 0 sda 1 2 x 4 5 6 7", "8 0 sda 1 2 18446744073709551615 4 5 6 7"} {
		if _, _, ok := parseDiskstats([]byte(l)); ok {
			t.Errorf("%q is taken for a disk", l)
		}
	}
}

func TestDiskIdentityIsReadAgain(t *testing.T) {
	root := fixture(t)
	src := NewDisk(root)
	var s rt.Snapshot
	for range identityEvery + 1 {
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		write(t, root.Sys+"/block/sda/size", "4000\n") // it is enlarged
	}
	if got := s.Disks[1].Capacity.Or(0); got != 4000*512 {
		t.Errorf("sda has %d bytes", got)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}
