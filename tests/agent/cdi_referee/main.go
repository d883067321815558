// The reference library of the Container Device Interface as a referee: loads a folder of CDI files, injects the devices
// that are named into an OCI specification, and prints what a container would get (JSON). Anything that the library does
// not accept ends it with a message.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cdi_referee FOLDER DEVICE...")
		os.Exit(2)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	if err != nil {
		fail(err)
	}
	for file, errs := range cache.GetErrors() {
		fail(fmt.Errorf("%s: %v", file, errs))
	}
	spec := &oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{}}
	if _, err := cache.InjectDevices(spec, os.Args[2:]...); err != nil {
		fail(err)
	}
	json.NewEncoder(os.Stdout).Encode(spec)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
