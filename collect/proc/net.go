package proc

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// identityEvery is the number of readings after which the data of a device that seldom
// changes (its link state, its size) is read again.
const identityEvery = 60

// Net reads /proc/net/dev, and /sys/class/net/<name>/ for new interfaces and from time to
// time.
type Net struct {
	file  file
	sys   string
	ifs   deviceTotals[rt.NetReading]
	peek  peek
	until int // readings until the identities are read again
}

// NewNet returns the source of Snapshot.Nets and of the node's sums over all interfaces
// except lo. The counters are those of the network namespace in which the source was
// first read.
func NewNet(fs FS) *Net {
	return &Net{file: file{path: fs.Proc + "/net/dev"}, sys: fs.Sys + "/class/net/"}
}

// Name is the name of the source in the ledger.
func (n *Net) Name() string { return "network" }

// Close closes the descriptor.
func (n *Net) Close() error { return n.file.close() }

// Read fills the network part of s.
func (n *Net) Read(s *rt.Snapshot) error {
	b, err := n.file.read()
	if err != nil {
		return err
	}
	if err := checkNetDev(b); err != nil {
		return fmt.Errorf("parse %s: %w", n.file.path, err)
	}
	again := n.until == 0
	if again {
		n.until = identityEvery
	}
	n.until--

	s.Nets = s.Nets[:0]
	n.ifs.begin()
	for {
		name, now, rest, ok := nextInterface(b)
		if !ok {
			break
		}
		b = rest
		if string(name) == "lo" {
			continue
		}
		r := n.ifs.next(name)
		if r.isNew || again {
			n.identify(r)
		}
		n.ifs.count(r, now)
		r.info.RxBytes.Set(now[0])
		r.info.TxBytes.Set(now[1])
		s.Nets = append(s.Nets, r.info)
	}
	n.ifs.end()
	s.Node.NetRxBytes.Set(n.ifs.total[0])
	s.Node.NetTxBytes.Set(n.ifs.total[1])
	return nil
}

// identify reads the interface's attributes. A file that does not exist, and the speed of
// a link that is down (EINVAL), leave their field absent or empty.
func (n *Net) identify(r *device[rt.NetReading]) {
	d := &r.info
	d.Name = r.name
	if b, err := n.peek.path(n.sys).str(r.name).str("/device/driver").link(); err == nil {
		d.Driver = keep(d.Driver, b)
	}
	d.MAC = n.peek.path(n.sys).str(r.name).str("/address").text(d.MAC)
	d.OperState = n.peek.path(n.sys).str(r.name).str("/operstate").text(d.OperState)
	d.MTU.Clear()
	if v, ok := n.peek.path(n.sys).str(r.name).str("/mtu").uint(); ok {
		d.MTU.Set(v)
	}
	d.SpeedMbps.Set(-1)
	if v, ok := n.peek.path(n.sys).str(r.name).str("/speed").uint(); ok && v < 1<<32-1 {
		d.SpeedMbps.Set(int64(v))
	}
}

// nextInterface parses the next interface of /proc/net/dev: its name and its bytes
// received and sent (the first and the ninth number). The two header lines have no colon.
func nextInterface(b []byte) (name []byte, now counters, rest []byte, ok bool) {
	for len(b) > 0 {
		var l []byte
		l, b = procfile.Line(b)
		colon := bytes.IndexByte(l, ':')
		if colon < 0 {
			continue
		}
		var v [9]uint64
		name = procfile.Trim(l[:colon])
		if _, ok := procfile.Uints(l[colon+1:], v[:]); !ok || len(name) == 0 {
			continue
		}
		return name, counters{v[0], v[8]}, b, true
	}
	return nil, counters{}, nil, false
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
