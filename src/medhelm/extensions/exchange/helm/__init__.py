"""Read and write run folders of HELM."""
