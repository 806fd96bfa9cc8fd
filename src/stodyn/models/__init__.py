"""Ready-made systems with their equations, parameters and exact answers, one file a family."""
