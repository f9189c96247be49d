package receiver

import (
	"bytes"
	"hash"
	"io"
)

// body is an upload between its arrival and its place in the store.
type body interface {
	// receive reads all of it, and hashes it.
	receive(from io.Reader, sum hash.Hash) error
	// Read reads what was received.
	io.Reader
	// keep makes it a durable and visible file of the store.
	keep(name string) error
	// discard removes what was not kept.
	discard()
}

// body receives small uploads in memory, larger ones in a file.
func (rc *Receiver) body(length int64) body {
	if length <= smallFile {
		return &smallBody{store: rc.store}
	}
	return &largeBody{store: rc.store}
}

type smallBody struct {
	store *store
	bytes.Buffer
	content []byte
}

func (b *smallBody) receive(from io.Reader, sum hash.Hash) error {
	_, err := io.Copy(io.MultiWriter(&b.Buffer, sum), from)
	b.content = b.Bytes()
	return err
}

func (b *smallBody) keep(name string) error { return b.store.keep(file{name, b.content}) }

func (b *smallBody) discard() {}

type largeBody struct {
	store *store
	temp
}

func (b *largeBody) receive(from io.Reader, sum hash.Hash) (err error) {
	b.temp, err = newTemp(b.store.dir)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(b.temp, sum), from); err != nil {
		return err
	}
	_, err = b.Seek(0, io.SeekStart)
	return err
}

func (b *largeBody) keep(name string) error { return b.store.adopt(b.temp, name) }

func (b *largeBody) discard() {
	if b.File != nil {
		b.temp.discard()
	}
}
