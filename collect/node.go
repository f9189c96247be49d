package collect

import "github.com/resource-tracker/rt"

// readNode reads the sources of the node, unless another tracker has stored their
// values in the cache within half of the time since the last snapshot. The first
// reading never uses the cache: it finds out which sources the node has.
func (r *Recorder) readNode(s *rt.Snapshot) {
	cache := r.o.NodeCache
	if cache == nil {
		r.readSources(s)
		return
	}
	notBefore := s.Boot - (s.Boot-r.written)/2
	isFirst := r.seq == 0
	if !isFirst && cache.load(s, notBefore) {
		r.sums.fill(s)
		return
	}
	isWriter := cache.tryLock()
	if isWriter && !isFirst && cache.load(s, notBefore) { // stored between the two calls
		cache.unlock()
		r.sums.fill(s)
		return
	}
	r.readSources(s)
	r.sums.fill(s)
	if isWriter {
		r.report(&r.cache, "sensor", "node cache", cache.write(s))
	}
}

func (r *Recorder) readSources(s *rt.Snapshot) {
	for i, src := range r.o.Node {
		r.report(&r.node[i], "sensor", src.Name(), read(src, s))
	}
}
