// What drawbridge-agent is measured against, and what measures both: `peer plugin` is the least DRA plugin that one would
// run, on the helper that Kubernetes offers for it; `peer load` calls a plugin as a kubelet does and prints how long it took.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string) error{"plugin": plugin, "load": load}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "peer plugin|load ...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
