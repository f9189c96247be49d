package initstmt

func run(n int) (err error) {
	if err = step(); err != nil { // want "declares nothing"
		return err
	}
	if step(); n > 0 { // want "declares nothing"
		return nil
	}
	switch n++; n { // want "declares nothing"
	case 1:
	}
	switch m := n + 1; m {
	case 1:
	}
	if err := step(); err != nil {
		return err
	}
	return err
}

func step() error { return nil }
