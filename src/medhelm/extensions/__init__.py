"""Parts that the core works without: each adds commands, providers or other hooks, as an installed package would.

A folder has a file `entry_points.txt` with what it adds, in the format of installed packages. The core imports nothing
from here by name, and works without any of the folders. Extensions import the core, and never each other.
"""
