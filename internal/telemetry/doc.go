// Package telemetry shows what runs on this node as GemPBA's telemetry: it looks at
// processes and the node at a cadence that clients may change, and sends what it
// sees to all of them. Nobody waits for a client.
package telemetry
