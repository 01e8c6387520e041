"""An example of a package of plug-ins."""
