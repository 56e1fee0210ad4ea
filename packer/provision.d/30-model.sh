# shellcheck shell=bash
# The model, by revision and sha256, where the server looks for it; and its name in the
# configuration that the operator edits.

: "${MODEL_MANIFEST:=bge-small-en-v1.5.json}"
manifest=$REPO/packer/models/$MODEL_MANIFEST
hub=/var/lib/infinity/hf/hub

from=()
if [ -n "${MODEL_FILES:-}" ]; then
    from=(--files "$MODEL_FILES")
fi
python3 -I "$REPO/packer/model_store.py" "$manifest" "$hub" "${from[@]}"

model=$(python3 -I -c 'import json, sys; print(json.load(open(sys.argv[1]))["id"])' "$manifest")
install -d /etc/infinity
sed "s|^MODEL=.*|MODEL=$model|" "$REPO/packer/infinity.env" >/etc/infinity/infinity.env
chmod 644 /etc/infinity/infinity.env
