// Package telemetry broadcasts what runs on this node as GemPBA's telemetry. It reads the
// processes and the node at a cadence that clients may change, and sends each line to all
// clients. It never waits for a client.
package telemetry
