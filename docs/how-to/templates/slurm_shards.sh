#!/bin/bash
# One shard of a run per task of the array. Submit it where $WORK is, again after a failure: it continues.
#SBATCH --job-name=medhelm-shards
#SBATCH --array=1-8
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --output=medhelm-shard-%a.log
set -euo pipefail

# To edit, or to set in the environment of sbatch:
: "${WORK:=$SLURM_SUBMIT_DIR}"                      # folder that all nodes share
: "${SHARDS:=8}"                                    # the last number of the array above
: "${BENCHMARKS:=pubmed_qa medbullets}"
: "${MODEL:=openai/NAME@file:$WORK/endpoints.txt}"  # the servers of slurm_servers.sh
: "${OPTIONS:=--data $WORK/data}"                   # further options of `medhelm run`, the same for all shards
: "${NODE_DISK:=}"                                  # such as /tmp: keep the store there while the task runs

store=$WORK/shards/$SLURM_ARRAY_TASK_ID
mkdir -p "$WORK/shards"
# shellcheck disable=SC2086  # several benchmarks and options
run=(medhelm run $BENCHMARKS --model "$MODEL" $OPTIONS --shard "$SLURM_ARRAY_TASK_ID/$SHARDS")

if [[ -z $NODE_DISK ]]; then
    exec "${run[@]}" --store "$store" # gets the signal before the time limit, keeps what was received, and ends
fi

local=$(mktemp -d "$NODE_DISK/medhelm-XXXXXX")
keep() { # put the store in place as a whole
    hidden=$WORK/shards/.$SLURM_ARRAY_TASK_ID
    rm -rf "$hidden" && cp -R "$local/store" "$hidden" && rm -rf "$store" && mv "$hidden" "$store"
    rm -rf "$local"
}
[[ ! -d $store ]] || cp -R "$store" "$local/store"
trap keep EXIT
"${run[@]}" --store "$local/store" &
child=$!
trap 'kill -TERM $child' TERM
code=0
wait $child || code=$?
if [[ $code -gt 128 ]]; then code=0 && { wait $child || code=$?; }; fi # the signal ended the first wait
exit "$code"
