#!/bin/bash
# Merge the shards, and show the leaderboard. If a shard is missing or unfinished, say which, and change nothing.
#SBATCH --job-name=medhelm-merge
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
#SBATCH --time=01:00:00
#SBATCH --output=medhelm-merge.log
set -euo pipefail

: "${WORK:=$SLURM_SUBMIT_DIR}"

code=0
medhelm merge "$WORK"/shards/* --store "$WORK/results" || code=$?
if [[ $code -gt 1 ]]; then exit "$code"; fi # 1: merged, with some failed requests
medhelm leaderboard --store "$WORK/results"
exit "$code"
