// Package powerapi reads and writes PowerAPI's reports, as JSON documents and as CSV: HWPCReport (counters and RAPL),
// PowerReport (watts) and ProcfsReport (CPU use).
//
// The readers differ by version and by input. The newest socket input requires time stamps in milliseconds since the
// epoch and crashes on text. The newest file input requires ISO 8601 and metadata. The CSV input requires
// milliseconds that never decrease. Therefore a Stamp selects the form of the time, and metadata is always written.
// The decoder reads all forms, also without metadata, as in the examples of the page.
//
// Import and the functions Export* convert a spooled run. FollowToFile, FollowToSocket and Receiver
// exchange reports with running sensors and formulas. Sensors sums up the stored reports of a run.
package powerapi
