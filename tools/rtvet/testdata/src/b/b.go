package b

// Survive is deferred by other packages.
func Survive(report func(any)) {
	if p := recover(); p != nil {
		report(p)
	}
}

// Safe survives.
func Safe() {
	defer Survive(nil)
	println()
}

// Unsafe does not.
func Unsafe() { println() }
