// Package errkind marks an error with a kind that its text does not show.
package errkind

// With returns an error that has the text of err. errors.Is finds both kind and err in it.
func With(kind, err error) error { return &kindError{kind, err} }

type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
