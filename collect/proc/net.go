package proc

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// identityEvery is the number of readings after which what seldom changes of a
// device (its link state, its size) is read again.
const identityEvery = 60

// Net reads /proc/net/dev and, when interfaces come and go and at times between,
// /sys/class/net/<name>/.
type Net struct {
	file  file
	sys   string
	ifs   table[rt.NetReading]
	peek  peek
	until int // readings until the identities are read again
}

// NewNet returns the source of Snapshot.Nets and of the node's sums over the
// interfaces but lo. The counters are those of the network namespace in which
// the source was first read.
func NewNet(fs FS) *Net {
	return &Net{file: file{path: fs.Proc + "/net/dev"}, sys: fs.Sys + "/class/net/"}
}

// Name is what the ledger calls the source.
func (n *Net) Name() string { return "network" }

// Close gives the descriptor back.
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
		r.dev.RxBytes.Set(now[0])
		r.dev.TxBytes.Set(now[1])
		s.Nets = append(s.Nets, r.dev)
	}
	n.ifs.end()
	s.Node.NetRxBytes.Set(n.ifs.total[0])
	s.Node.NetTxBytes.Set(n.ifs.total[1])
	return nil
}

// identify reads the interface's attributes. A file that is not there, and the
// speed of a link that is down (EINVAL), leave their field unreported.
func (n *Net) identify(r *row[rt.NetReading]) {
	d := &r.dev
	d.Name = r.name
	if b, err := n.peek.path(n.sys).str(r.name).str("/device/driver").link(); err == nil {
		d.Driver = keep(d.Driver, b)
	}
	d.MAC = n.attribute(d.MAC, r.name, "/address")
	d.OperState = n.attribute(d.OperState, r.name, "/operstate")
	d.MTU.Clear()
	if b, err := n.peek.path(n.sys).str(r.name).str("/mtu").read(); err == nil {
		if v, ok := procfile.Uint(b); ok {
			d.MTU.Set(v)
		}
	}
	d.SpeedMbps.Set(-1)
	if b, err := n.peek.path(n.sys).str(r.name).str("/speed").read(); err == nil {
		if v, ok := procfile.Uint(b); ok && v < 1<<32-1 {
			d.SpeedMbps.Set(int64(v))
		}
	}
}

func (n *Net) attribute(old, name, file string) string {
	b, err := n.peek.path(n.sys).str(name).str(file).read()
	if err != nil {
		return ""
	}
	return keep(old, b)
}

// nextInterface reads the next interface of /proc/net/dev: its name and its bytes
// received and sent (the first and the ninth number). The two lines of heading
// have no colon.
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

// checkNetDev refuses a file of another shape, so that none of it is taken for counters.
func checkNetDev(b []byte) error {
	first, rest := procfile.Line(b)
	second, _ := procfile.Line(rest)
	if !bytes.Contains(first, []byte("Receive")) || !bytes.Contains(second, []byte("bytes")) {
		return fmt.Errorf("the heading is %q", first)
	}
	return nil
}
