// Package energy reads what the node measures of its energy and power:
//
//   - RAPL, through the powercap framework (Documentation/power/powercap/powercap.rst):
//     packages, and in them cores, uncore and memory; the platform. AMD's processors
//     are there under Intel's name.
//   - hwmon: the ACPI power meter, which on servers asks the management controller
//     (DCMI), and AMD's counters where the module amd_energy shows them.
//   - Cray's pm_counters.
//
// The management controller's own device, /dev/ipmi0, is left alone: who may send it
// the command that reads the power (DCMI) may send it the one that switches the node
// off, an answer can take seconds, and each job's tracker would ask. Where the kernel
// is to ask instead, acpi_power_meter and acpi_ipmi have to be loaded.
//
// RAPL's counters are root's to read. They are opened once, by whoever may, and then
// read through the descriptors. A domain that goes is absent until it comes back, and
// its energy is what was counted while it was there: nothing is made up for the rest.
//
// A counter wraps: of a package after 262 kJ or so, of memory after 65 kJ. One that
// wraps twice between two readings cannot be told from one that wraps once: at 500 W
// and 65 kJ that takes 4 minutes. One that would have wrapped at 10 kW or more was set
// back, and what was used meanwhile is not known.
package energy
