package collect

import "github.com/resource-tracker/rt"

// readNode reads the sources of the node, unless another tracker has done so since
// half of this one's interval. The first reading is always its own: it tells which
// sources there are.
func (r *Recorder) readNode(s *rt.Snapshot) {
	lease := r.o.Lease
	if lease == nil {
		r.readSources(s)
		return
	}
	notBefore := s.Boot - (s.Boot-r.written)/2
	shared := r.seq > 0
	if shared && lease.take(s, notBefore) {
		r.sums.fill(s)
		return
	}
	elected := lease.elect()
	if elected && shared && lease.take(s, notBefore) { // somebody was quicker
		lease.resign()
		r.sums.fill(s)
		return
	}
	r.readSources(s)
	r.sums.fill(s)
	if elected {
		r.report(&r.leased, "sensor", "node lease", lease.give(s))
	}
}

func (r *Recorder) readSources(s *rt.Snapshot) {
	for i, src := range r.o.Node {
		r.report(&r.node[i], "sensor", src.Name(), read(src, s))
	}
}
