#!/bin/bash
# One model server per task of the array. Each appends its address to endpoints.txt, and removes it when it ends.
#SBATCH --job-name=medhelm-servers
#SBATCH --array=1-4
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --output=medhelm-server-%a.log
set -euo pipefail

: "${WORK:=$SLURM_SUBMIT_DIR}"          # folder that all nodes share
: "${WEIGHTS:=$WORK/models/NAME}"       # folder of the model
: "${NAME:=$(basename "$WEIGHTS")}"     # its name in `openai/NAME@...`
: "${HOST:=$(hostname -f)}"             # name of this node on the network of the cluster
: "${MEDHELM_API_KEY:?set it to a key of your choice, for the servers and for medhelm}"

export VLLM_API_KEY=$MEDHELM_API_KEY HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
address=http://$HOST:$port/v1

vllm serve "$WEIGHTS" --served-model-name "$NAME" --host "$HOST" --port "$port" &
server=$!
forget() {
    kill "$server" 2> /dev/null || true
    (flock 9 && sed -i "\\|^$address\$|d" "$WORK/endpoints.txt") 9>> "$WORK/endpoints.lock"
}
trap forget EXIT
trap 'exit 0' TERM

until python3 -c "import urllib.request; urllib.request.urlopen('http://$HOST:$port/health', timeout=5)" 2> /dev/null; do
    kill -0 "$server" || exit 1 # its log says why
    sleep 2
done
(flock 9 && echo "$address" >> "$WORK/endpoints.txt") 9>> "$WORK/endpoints.lock"
wait "$server"
