// Go looks for a go.mod; the module files of the releases stand beside it (go build -modfile).
module drawbridge.dev/tests/cluster/kubernetes

go 1.26.0
