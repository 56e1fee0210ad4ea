"""What strangers' scanners say about a booted machine, as one table of controls."""
