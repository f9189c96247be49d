package tui

// Cursor is the position in a list of rows.
type Cursor struct {
	Row int
	Top int // first row on the screen
}

// Move applies a key to the cursor in a list of n rows with page rows on the screen,
// and reports whether the key moves cursors.
func (c *Cursor) Move(k Key, n, page int) bool {
	switch {
	case k.Is(up):
		c.Row--
	case k.Is(down):
		c.Row++
	case k.Is(pageUp):
		c.Row -= page
	case k.Is(pageDown):
		c.Row += page
	case k.Is(first):
		c.Row = 0
	case k.Is(last):
		c.Row = n
	default:
		return false
	}
	c.Bound(n)
	return true
}

// Bound keeps the cursor within n rows.
func (c *Cursor) Bound(n int) { c.Row = max(min(c.Row, n-1), 0) }

// Scroll returns which of n rows are on a screen of height rows: from Top on, so that
// the cursor is among them.
func (c *Cursor) Scroll(n, height int) (from, to int) {
	c.Top = max(min(c.Top, c.Row), c.Row-height+1, 0)
	c.Top = max(min(c.Top, n-height), 0)
	return c.Top, min(c.Top+height, n)
}
