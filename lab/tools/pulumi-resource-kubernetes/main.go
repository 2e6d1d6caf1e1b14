// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider, built
// from the published Go module.
//
// The provider's own main package embeds two files that its release process
// generates and that the module does not carry. lab/builds.py makes them from
// the files the module does carry and puts them beside this file, in a scratch
// folder: building this package in the source tree fails on purpose.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema-embed.json
var schema []byte

//go:embed terraform-mapping-embed.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
}
