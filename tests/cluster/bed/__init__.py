"""A real Kubernetes on one machine, for Drawbridge's tests and for people: see tests/cluster/README.md."""
