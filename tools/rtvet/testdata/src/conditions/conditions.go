package conditions

func mixed(a, b, c bool) int {
	if a && (b || c) { // want "mixes"
		return 1
	}
	if a && f(b || c) || f(a && (b || !c)) { // want "mixes" "mixes"
		return 2
	}
	for !(a && b) || c { // want "mixes"
	}
	return 3
}

func named(a, b, c bool) bool {
	usable := a && (b || c)
	var spare = a || b && c
	if usable && spare {
		return true
	}
	return a || b && c // want "mixes"
}

func predicate(a, b, c bool) bool { return a && (b || c) }

func separate(a, b, c bool) bool {
	if a && f(b || c) {
		return b && c
	}
	return a || b
}

func f(bool) bool { return true }
