"""The entry point `ward_tasks` of medhelm.benchmarks: this folder holds one folder per benchmark."""
