package proc

// absence remembers that what a source reads is not on this node, so that most
// readings need not look for it: a node without InfiniBand seldom gets it.
type absence struct {
	err   error
	until int // readings until the next look
}

// known returns why there was nothing at the last look, nil where this reading looks.
func (a *absence) known() error {
	if a.until == 0 {
		return nil
	}
	a.until--
	return a.err
}

// note keeps the outcome of a look.
func (a *absence) note(err error) error {
	if err != nil {
		a.err, a.until = err, identityEvery
	}
	return err
}
