// Lets the package declare functions without bodies, see block.go.
