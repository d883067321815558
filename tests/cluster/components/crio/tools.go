//go:build tools

// Package tools names the program that is built from this module, so that go.mod pins it and go.sum checks it.
package tools

import _ "github.com/cri-o/cri-o/cmd/crio"
