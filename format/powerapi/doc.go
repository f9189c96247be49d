// Package powerapi is the contract of PowerAPI's reports: HWPCReport (counters of
// hardware and software, and RAPL), PowerReport (watts) and ProcfsReport (use of
// the CPU), as JSON documents and as CSV.
//
// What reads them differs by version and by input. The newest socket input takes
// time stamps as milliseconds since the epoch and dies on text; the newest file
// input takes ISO 8601 and requires metadata; the CSV input takes milliseconds that
// never decrease. So a Stamp says which is written, and metadata always is. All of
// it is read, and the page's own examples, which lack metadata.
package powerapi
