package b

// Survive is deferred.
func Survive(tell func(any)) {
	if p := recover(); p != nil {
		tell(p)
	}
}

// Safe survives.
func Safe() {
	defer Survive(nil)
	println()
}

// Unsafe does not.
func Unsafe() { println() }
