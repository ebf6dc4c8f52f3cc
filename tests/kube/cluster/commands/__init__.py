"""Commands that need kubelets: on a whole cluster."""
