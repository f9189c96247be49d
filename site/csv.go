package site

import "bytes"

// CSV counts a CSV text that is added part by part. The zero value is empty.
type CSV struct {
	Rows   int64 // lines that have an end, without the first one
	Text   int64 // bytes
	Header int64 // bytes of the first line
	Whole  bool  // the last line has an end
}

// Add adds a part of the text.
func (c *CSV) Add(text []byte) {
	lines := int64(bytes.Count(text, []byte("\n")))
	isHeader := c.Header == 0 && lines > 0
	if isHeader {
		c.Header = c.Text + int64(bytes.IndexByte(text, '\n')) + 1
		lines--
	}
	c.Rows += lines
	c.Text += int64(len(text))
	if len(text) > 0 {
		c.Whole = text[len(text)-1] == '\n'
	}
}

// Write implements io.Writer.
func (c *CSV) Write(text []byte) (int, error) {
	c.Add(text)
	return len(text), nil
}
