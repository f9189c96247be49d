package main

import (
	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/internal/convert/sonar"
)

func sonarSysinfoCommand() *cli.Command {
	return &cli.Command{
		Name:         "sysinfo",
		Usage:        "print what this host is: one JSON object, or free CSV",
		Flags:        sonarForms(),
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			asJSON, err := sonarJSON(c, true)
			if err != nil {
				return err
			}
			return sonar.WriteSysinfo(c.Context, c.App.Writer, gpu.New("/dev", "/sys", gpu.WithDetails()), fqdn(c.Context), asJSON)
		},
	}
}
