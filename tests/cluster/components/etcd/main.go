// Command etcd is the server of go.etcd.io/etcd, built as a module of its own: its dependencies disagree with those of
// Kubernetes.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
