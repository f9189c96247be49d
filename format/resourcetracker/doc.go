// Package resourcetracker is the output contract of resource-tracker: JSON Lines (section 7.1 of the specification)
// and the CSV of 21 columns (section 7.2). The CSV of 32 columns is for the running Sentinel service.
//
// A value that was not read is null in JSON and an empty field in CSV. The
// encoders append to a buffer, allocate nothing for CSV, and give the same bytes
// for the same input. ExportCSV and ExportJSON convert a spooled run.
package resourcetracker
