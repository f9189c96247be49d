package energy

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

const (
	// lookAgain is how often is looked for domains that came, or came back; where
	// there is none at all, lookSeldom.
	lookAgain  = time.Minute
	lookSeldom = time.Hour
	// meterPause is the time between two readings of a power meter. It may ask
	// another processor over a slow line: one that takes longer than meterTime is
	// not asked again for meterAgain.
	meterPause = 10 * time.Second
	meterTime  = 50 * time.Millisecond
	meterAgain = 10 * time.Minute
)

// Source reads all domains. It is used by one goroutine, as a collect.Source.
type Source struct {
	sys     string
	domains []domain
	look    int64 // Boot of the next look for domains
	none    error // there is no domain, or none that may be read
	buf     []byte
	now     func() time.Time
}

// unit is what a domain's file shows.
type unit uint8

const (
	microjoules unit = iota
	joules           // "123 J", and more words
	microwatts
)

// domain is one file that measures.
type domain struct {
	path    string
	unit    unit
	wraps   uint64 // after this the counter begins at 0 again; 0 where it does not
	fd      int    // -1 while it is not there
	reading rt.EnergyReading

	counting bool   // last is good
	last     uint64 // microjoules: the counter when it was last read
	at       int64  // Boot of that reading
	total    uint64 // microjoules since the first reading
	next     int64  // Boot before which a power meter is left alone
}

// New returns the source for what is below sysRoot (/sys). Nothing is opened yet.
func New(sysRoot string) *Source {
	return &Source{sys: sysRoot, buf: make([]byte, 128), now: time.Now}
}

// Name is what the ledger calls the source.
func (s *Source) Name() string { return "energy" }

// Open opens what there is, so that it can be read after privileges are dropped. It
// is no error here that there is nothing: Read says so.
func (s *Source) Open() { s.discover() }

// Close gives the descriptors back.
func (s *Source) Close() error {
	var failed []error
	for i := range s.domains {
		failed = append(failed, s.domains[i].close())
	}
	s.domains, s.look, s.none = nil, 0, nil
	return errors.Join(failed...)
}

func (d *domain) close() error {
	if d.fd < 0 {
		return nil
	}
	fd := d.fd
	d.fd, d.counting = -1, false
	if err := unix.Close(fd); err != nil {
		return &fs.PathError{Op: "close", Path: d.path, Err: err}
	}
	return nil
}

// Read adds to snap.Energy, where GPUs may be already. A domain that cannot be read is there without a value, and
// the error says why; one of fs.ErrNotExist says that nothing measures on this node.
func (s *Source) Read(snap *rt.Snapshot) error {
	if snap.Boot >= s.look {
		s.discover()
		s.look = snap.Boot + int64(lookAgain)
		if len(s.domains) == 0 {
			s.look = snap.Boot + int64(lookSeldom)
		}
	}
	err := s.none
	for i := range s.domains {
		d := &s.domains[i]
		d.reading.Energy.Clear()
		d.reading.Power.Clear()
		if failed := s.measure(d, snap.Boot); failed != nil && err == nil {
			err = failed
		}
		snap.Energy = append(snap.Energy, d.reading)
	}
	return err
}

// measure reads one domain.
func (s *Source) measure(d *domain, boot int64) error {
	switch {
	case d.fd < 0:
		return &fs.PathError{Op: "read", Path: d.path, Err: unix.ENODEV}
	case d.unit == microwatts:
		return s.meter(d, boot)
	}
	v, err := s.value(d)
	if err != nil {
		return err
	}
	err = d.count(v, boot)
	d.reading.Energy.Set(d.total)
	return err
}

// meter reads a power meter, if it is time to. Not in the first reading: a job waits
// for that.
func (s *Source) meter(d *domain, boot int64) error {
	if d.next == 0 {
		d.next = boot + 1
	}
	if boot < d.next {
		return nil
	}
	began := s.now()
	v, err := s.value(d)
	d.next = boot + int64(meterPause)
	if took := s.now().Sub(began); took > meterTime {
		d.next = boot + int64(meterAgain)
		if err == nil {
			err = fmt.Errorf("%s took %s: it is read every %s from now on", d.path, took.Round(time.Millisecond), meterAgain)
		}
	}
	if err == nil || v > 0 {
		d.reading.Power.Set(float64(v) / 1e6)
	}
	return err
}

// maxPower is more than a processor, its memory or a platform takes, in watts: a
// counter that would have to have wrapped at more was set back, as root may.
const maxPower = 10_000

// count takes a counter's new value, in microjoules.
func (d *domain) count(v uint64, boot int64) error {
	before, elapsed := d.last, time.Duration(boot-d.at)
	known := d.counting
	d.last, d.at, d.counting = v, boot, true
	switch {
	case !known:
	case v >= before:
		d.total += v - before
	case d.wraps > 0 && before <= d.wraps:
		used := d.wraps - before + v
		if float64(used) > maxPower*1e6*elapsed.Seconds() {
			return fmt.Errorf("%s fell from %d to %d within %s: it did not wrap but was set back; what was used between is not known", d.path, before, v, elapsed)
		}
		d.total += used
	default:
		return fmt.Errorf("%s fell from %d to %d and has no known range: what was used between is not known", d.path, before, v)
	}
	return nil
}

// value reads a domain's file. One that has gone is closed.
func (s *Source) value(d *domain) (uint64, error) {
	for {
		n, err := unix.Pread(d.fd, s.buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
			_ = d.close() // it was opened for reading: nothing can be lost
			return 0, &fs.PathError{Op: "read", Path: d.path, Err: err}
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: d.path, Err: err}
		}
		v, ok := parse(s.buf[:n], d.unit)
		if !ok {
			return 0, fmt.Errorf("%s does not hold one number and its unit: %.40q", d.path, s.buf[:n])
		}
		return v, nil
	}
}

// parse reads "1234\n", and of Cray's counters "1234 J", "1234 J 1400000000 us".
func parse(b []byte, u unit) (uint64, bool) {
	var v uint64
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		digit := uint64(b[i] - '0')
		if v > (1<<64-1-digit)/10 {
			return 0, false
		}
		v = 10*v + digit
	}
	rest := b[i:]
	switch {
	case i == 0:
		return 0, false
	case u == joules:
		const million = 1_000_000
		return v * million, v <= (1<<64-1)/million && len(rest) > 1 && rest[0] == ' ' && rest[1] == 'J'
	}
	return v, len(rest) == 0 || rest[0] == '\n'
}
