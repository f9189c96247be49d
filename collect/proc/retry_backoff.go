package proc

// retryBackoff remembers that this node lacks the files of a source, so that most
// readings skip the attempt: a node without InfiniBand seldom gets it.
type retryBackoff struct {
	err  error
	wait int // readings until the next attempt
}

// pending returns the error of the last attempt, nil if this reading is to try again.
func (r *retryBackoff) pending() error {
	if r.wait == 0 {
		return nil
	}
	r.wait--
	return r.err
}

// note records the result of an attempt and returns it.
func (r *retryBackoff) note(err error) error {
	if err != nil {
		r.err, r.wait = err, identityEvery
	}
	return err
}
