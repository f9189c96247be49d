// Sbom completes the SBOM of cyclonedx-gomod, which knows Go modules only. It sets the version of the release and
// adds the programs' contents besides Go modules.
//
//	sbom VERSION [NAME@VERSION@LICENSE...] < cyclonedx.json > rt.cdx.json
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION [NAME@VERSION@LICENSE...]")
		os.Exit(2)
	}
	if err := complete(os.Stdin, os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func complete(in io.Reader, out io.Writer, version string, others []string) error {
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(in, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return fmt.Errorf("read the SBOM of cyclonedx-gomod: %w", err)
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Components == nil {
		return errors.New("the SBOM of cyclonedx-gomod has no main component")
	}
	program := bom.Metadata.Component
	program.Version = version
	for _, other := range others {
		c, err := component(other)
		if err != nil {
			return err
		}
		*bom.Components = append(*bom.Components, c)
		depend(&bom, program.BOMRef, c.BOMRef)
	}
	encoder := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	return encoder.Encode(&bom)
}

// component parses NAME@VERSION@LICENSE.
func component(text string) (cdx.Component, error) {
	parts := strings.Split(text, "@")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return cdx.Component{}, fmt.Errorf("%q is not NAME@VERSION@LICENSE", text)
	}
	purl := "pkg:generic/" + parts[0] + "@" + parts[1]
	license := cdx.LicenseChoice{License: &cdx.License{ID: parts[2]}}
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: purl, PackageURL: purl,
		Name: parts[0], Version: parts[1], Licenses: &cdx.Licenses{license},
	}, nil
}

// depend notes that one component depends on another one.
func depend(bom *cdx.BOM, from, to string) {
	if bom.Dependencies == nil {
		bom.Dependencies = &[]cdx.Dependency{}
	}
	for i, d := range *bom.Dependencies {
		if d.Ref != from || d.Dependencies == nil {
			continue
		}
		refs := append(*d.Dependencies, to)
		(*bom.Dependencies)[i].Dependencies = &refs
		return
	}
	*bom.Dependencies = append(*bom.Dependencies, cdx.Dependency{Ref: from, Dependencies: &[]string{to}})
}
