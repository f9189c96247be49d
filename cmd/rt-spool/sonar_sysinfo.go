package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/format/sonar"
)

func sonarSysinfoCommand() *cli.Command {
	return &cli.Command{
		Name:         "sysinfo",
		Usage:        "print what this host is: one JSON object, or free CSV",
		Flags:        sonarForms(),
		OnUsageError: onUsageError,
		Action:       runSonarSysinfo,
	}
}

func runSonarSysinfo(c *cli.Context) error {
	asJSON, err := sonarJSON(c, true)
	if err != nil {
		return err
	}
	facts := host.Read(host.NewRoots("/proc", "/sys"))
	kept := keptGPUs{sonarGPUSource: gpu.New("/dev", "/sys", gpu.WithDetails())}
	gpus := readGPUs(c.Context, &kept)
	s := sonarSysinfo(&facts, gpus, kept.details)
	s.Timestamp, s.Hostname = time.Now(), fqdn(c.Context)
	var out []byte
	if asJSON {
		out, err = s.AppendJSON(nil)
	} else {
		out, err = s.AppendCSV(nil)
	}
	if err == nil {
		_, err = c.App.Writer.Write(out)
	}
	return err
}

func sonarSysinfo(h *rt.Host, gpus []rt.GPUReading, details []gpu.Details) *sonar.Sysinfo {
	s := &sonar.Sysinfo{CPUCores: h.VCPUs.Or(0), MemGB: h.MemoryMiB.Or(0) >> 10, GPUInfo: sonarCards(gpus, details)}
	s.GPUCards = uint64(len(s.GPUInfo))
	var kib uint64
	for i := range gpus { // a GPU with MIG on has its memory in its instances
		kib += gpus[i].VRAMTotal.Or(0) >> 10
	}
	s.GPUMemGB = kib >> 20
	s.Description = sonarDescription(h, s.GPUInfo)
	return s
}
