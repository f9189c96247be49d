// Package energy reads the energy counters and power meters of the node:
//
//   - RAPL, through the powercap framework (Documentation/power/powercap/powercap.rst):
//     packages with their cores, uncore and memory; the platform. AMD's processors have
//     the same names as Intel's.
//   - hwmon: the ACPI power meter, which on servers reads the management controller
//     (DCMI), and AMD's counters if the module amd_energy is loaded.
//   - Cray's pm_counters.
//
// The package does not use the management controller's own device, /dev/ipmi0: a process
// that may send it the command to read the power (DCMI) may also send the one that
// switches the node off, an answer can take seconds, and each job's tracker would send
// one. With the modules acpi_power_meter and acpi_ipmi the kernel reads it instead.
//
// Only root can read RAPL's counters. They are opened once, with privileges, and then
// read through the descriptors. A domain that vanishes is absent until it appears again;
// its energy is what was counted while it was present, and is not extrapolated.
//
// A counter wraps: that of a package after about 262 kJ, that of memory after 65 kJ. Two
// wraps between two readings look like one: at 500 W and 65 kJ that takes 4 minutes. A
// counter that would have wrapped at 10 kW or more was reset, and the energy used
// meanwhile is unknown.
package energy
