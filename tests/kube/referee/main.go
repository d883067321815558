// A referee for kube/quantity and kube/cel: what Kubernetes' own libraries say of the same texts.
// Not part of the build or of any test run; for whoever changes those files or moves to a newer
// Kubernetes. Needs Go.
//
//	go run . quantities < TEXTS            one quantity a line
//	go run . selectors FLEET.yaml < TEXTS  one CEL expression a line; FLEET: a List of ResourceSlices
//
// The first prints of each text "refused", or the exact value. The second prints of each expression
// the cost that an API server estimates and the greatest that a device took, both limited to
// 1,000,000, and the devices that match; it exits with 1 if one does not compile, exceeds the limit
// or fails on a device.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/yaml"
)

func quantity(text string) string {
	value, err := resource.ParseQuantity(text)
	if err != nil {
		return "refused"
	}
	return value.AsDec().String()
}

// readFleet returns the slices of a List in a YAML file.
func readFleet(path string) ([]resourceapi.ResourceSlice, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list resourceapi.ResourceSliceList
	err = yaml.Unmarshal(text, &list)
	return list.Items, err
}

// selector returns what is to be said of an expression, and whether an API server and a scheduler take it.
func selector(expression string, fleet []resourceapi.ResourceSlice) (string, bool) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	compiled := compiler.CompileCELExpression(expression, cel.Options{})
	if compiled.Error != nil {
		return compiled.Error.Error(), false
	}
	var matching []string
	var greatest uint64
	for _, slice := range fleet {
		for _, device := range slice.Spec.Devices {
			matches, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
				Driver:                   slice.Spec.Driver,
				AllowMultipleAllocations: device.AllowMultipleAllocations,
				Attributes:               device.Attributes,
				Capacity:                 device.Capacity,
			})
			if err != nil {
				return fmt.Sprintf("on %s: %v", device.Name, err), false
			}
			greatest = max(greatest, *details.ActualCost())
			if matches {
				matching = append(matching, device.Name)
			}
		}
	}
	report := fmt.Sprintf("estimate %d, cost %d: %s", compiled.MaxCost, greatest, strings.Join(matching, " "))
	return report, compiled.MaxCost <= resourceapi.CELSelectorExpressionMaxCost
}

func main() {
	judge := func(text string) (string, bool) { return quantity(text), true }
	if len(os.Args) == 3 && os.Args[1] == "selectors" {
		fleet, err := readFleet(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		judge = func(text string) (string, bool) { return selector(text, fleet) }
	} else if len(os.Args) != 2 || os.Args[1] != "quantities" {
		fmt.Fprintln(os.Stderr, "usage: referee quantities | selectors FLEET.yaml")
		os.Exit(2)
	}
	status := 0
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		report, good := judge(lines.Text())
		if !good {
			status = 1
		}
		fmt.Printf("%.60q\t%s\n", lines.Text(), report)
	}
	os.Exit(status)
}
