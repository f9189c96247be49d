package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// packets counts the packets of all interfaces but lo in /proc/net/dev. The sums do not
// jump or decrease when an interface appears, disappears or is reset.
type packets struct {
	file  string
	seen  map[string][2]uint64
	total [2]uint64 // in, out
}

// read sets the sums, or leaves them absent.
func (p *packets) read(to *gempba.NetAggregate) error {
	b, err := os.ReadFile(p.file)
	if err != nil {
		return fmt.Errorf("count packets: %w", err)
	}
	now, err := parsePackets(string(b))
	if err != nil {
		return fmt.Errorf("count packets: %s: %w", p.file, err)
	}
	for name, counts := range now {
		before, known := p.seen[name]
		for k := range counts {
			switch {
			case known && counts[k] >= before[k]:
				p.total[k] += counts[k] - before[k]
			case known || p.seen == nil:
				p.total[k] += counts[k]
			}
		}
	}
	p.seen = now
	to.PacketsIn, to.PacketsOut = rt.Some(p.total[0]), rt.Some(p.total[1])
	return nil
}

// parsePackets parses the second and the tenth figure of each interface.
func parsePackets(text string) (map[string][2]uint64, error) {
	out := map[string][2]uint64{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "lo" {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 16 {
			return nil, fmt.Errorf("interface %.20s has %d figures, not 16", name, len(fields))
		}
		in, err1 := strconv.ParseUint(fields[1], 10, 64)
		sent, err2 := strconv.ParseUint(fields[9], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("the packets of interface %.20s are no numbers", name)
		}
		out[name] = [2]uint64{in, sent}
	}
	return out, nil
}

func newPackets(procfs string) packets {
	return packets{file: filepath.Join(procfs, "net/dev")}
}
