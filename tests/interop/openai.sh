#!/usr/bin/env bash
# The official OpenAI client for Python before the HTTP port: openai.sh KVFERRY_BINARY SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
binary=$1 source=$2 tools=$3
here=$source/tests/interop
"$here/venv.sh" "$tools"
for script in openai_clients openai_scores; do
    PYTHONPATH=$source/tests/roles "$tools/venv/bin/python" -B "$here/$script.py" "$binary" "$source/model/demo"
done
