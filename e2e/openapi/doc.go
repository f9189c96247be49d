// Package openapi checks the reading API of rt-site against its description with schemathesis.
package openapi
