// What Kubernetes' YAML reader makes of texts. Reads one quoted text a line and prints rows for
// tests/kube/manifest_value_test.cpp:
//
//	go run ./yaml_values < ../yaml_texts.txt > ../yaml_values.inc
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// literal quotes a text for C++.
func literal(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c == '\n':
			out.WriteString(`\n`)
		case c < 0x20 || c > 0x7E || c == '?':
			fmt.Fprintf(&out, `\%03o`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func main() {
	fmt.Println("// Made by tests/kube/referee/yaml_values with sigs.k8s.io/yaml: {text, value as JSON}; an empty value: refused.")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, err := strconv.Unquote(lines.Text())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", lines.Text(), err)
			os.Exit(1)
		}
		value, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			value = nil
		}
		fmt.Printf("{%s, %s},\n", literal(text), literal(string(value)))
	}
}
