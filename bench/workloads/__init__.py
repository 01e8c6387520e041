"""What is measured, a workload a module."""
