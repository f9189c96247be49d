package proc

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Net reads /proc/net/dev, and /sys/class/net/<name>/ for new interfaces and from time to
// time.
type Net struct {
	File
	sys        string
	ifs        collect.DeviceTotals[rt.NetReading]
	peek       peek
	identities countdown
}

// NewNet returns the source of Snapshot.Nets, all interfaces except lo, and of the node's
// sums over the interfaces of rt.Wire. The counters belong to the network namespace in
// which the source was first read.
func NewNet(fs FS) *Net {
	n := &Net{sys: fs.Sys + "/class/net/"}
	n.File = File{"network", file{path: fs.Proc + "/net/dev"}, n.take}
	return n
}

// take fills the network part of s.
func (n *Net) take(b []byte, s *rt.Snapshot) error {
	if err := checkNetDev(b); err != nil {
		return err
	}
	again := n.identities.isDue()
	s.Nets = s.Nets[:0]
	n.ifs.Begin()
	for name, now := range interfaces(b) {
		if string(name) == "lo" {
			continue
		}
		r := n.ifs.Next(string(name))
		if r.IsNew || again {
			n.identify(r)
		}
		r.Info.RxBytes.Set(now[rxBytes])
		r.Info.TxBytes.Set(now[txBytes])
		s.Nets = append(s.Nets, r.Info)
	}
	wire, devices := rt.NewWire(s.Nets), n.ifs.Devices()
	for i := range devices {
		r := &s.Nets[i]
		n.ifs.Count(&devices[i], counters{r.RxBytes.Or(0), r.TxBytes.Or(0)}, wire.Has(i))
	}
	n.ifs.End(&s.Node.NetRxBytes, &s.Node.NetTxBytes)
	return nil
}

// identify reads the interface's attributes. A file that does not exist, and the speed of
// a link that is down (EINVAL), leave their field absent or empty.
func (n *Net) identify(r *collect.Device[rt.NetReading]) {
	d := &r.Info
	d.Name = r.Name
	if driver, err := os.Readlink(n.sys + r.Name + "/device/driver"); err == nil {
		d.Driver = strings.ToValidUTF8(filepath.Base(driver), "\uFFFD")
	}
	d.MAC = n.peek.path(n.sys).str(r.Name).str("/address").text(d.MAC)
	d.OperState = n.peek.path(n.sys).str(r.Name).str("/operstate").text(d.OperState)
	d.MTU.Clear()
	if v, ok := n.peek.path(n.sys).str(r.Name).str("/mtu").uint(); ok {
		d.MTU.Set(v)
	}
	d.SpeedMbps.Set(-1)
	if v, ok := n.peek.path(n.sys).str(r.Name).str("/speed").uint(); ok && v < 1<<32-1 {
		d.SpeedMbps.Set(int64(v))
	}
}

// interfaceCounters are the numbers of an interface in /proc/net/dev, by their columns.
type interfaceCounters [10]uint64

const (
	rxBytes, rxPackets = 0, 1
	txBytes, txPackets = 8, 9
)

// interfaces yields the interfaces of /proc/net/dev. The two header lines have no colon.
func interfaces(b []byte) iter.Seq2[[]byte, interfaceCounters] {
	return func(yield func([]byte, interfaceCounters) bool) {
		for l := range procfile.Lines(b) {
			var now interfaceCounters
			name, rest, hasColon := bytes.Cut(l, []byte{':'})
			name = procfile.Trim(name)
			_, ok := procfile.Uints(rest, now[:])
			isInterface := hasColon && ok && len(name) > 0
			if isInterface && !yield(name, now) {
				return
			}
		}
	}
}

// Packets counts what the interfaces of rt.Wire received and sent, in packets. As for bytes, an interface
// that appears later adds nothing at first, and one that vanishes subtracts nothing.
type Packets struct {
	file
	ifs collect.DeviceTotals[struct{}]
}

// NewPackets returns the counter of /proc/net/dev.
func NewPackets(fs FS) *Packets { return &Packets{file: file{path: fs.Proc + "/net/dev"}} }

// Read returns the sums. nets are the interfaces that a Net has just read.
func (p *Packets) Read(nets []rt.NetReading) (received, sent rt.Opt[uint64], err error) {
	b, err := p.read()
	if err == nil {
		err = checkNetDev(b)
	}
	if err != nil {
		return received, sent, fmt.Errorf("count packets: %w", err)
	}
	wire := rt.NewWire(nets)
	p.ifs.Begin()
	for name, now := range interfaces(b) {
		at := slices.IndexFunc(nets, func(n rt.NetReading) bool { return n.Name == string(name) })
		if at < 0 {
			continue
		}
		p.ifs.Count(p.ifs.Next(nets[at].Name), counters{now[rxPackets], now[txPackets]}, wire.Has(at))
	}
	p.ifs.End(&received, &sent)
	return received, sent, nil
}

// checkNetDev refuses a file of another form.
func checkNetDev(b []byte) error {
	first, rest := procfile.Line(b)
	second, _ := procfile.Line(rest)
	if !bytes.Contains(first, []byte("Receive")) || !bytes.Contains(second, []byte("bytes")) {
		return fmt.Errorf("unknown header line %q", first)
	}
	return nil
}
