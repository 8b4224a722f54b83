#!/bin/sh
# constraint_run.sh PIPE FOLDER TOKENIZERS... - 1,000 generated schemas, their replies checked by the package jsonschema, in an environment
# of its own below FOLDER, made when it is not there. 77: it cannot be.
set -eu
pipe=$1 folder=$2
shift 2
here=$(dirname "$0")
mkdir -p "$folder"
if ! "$folder/venv/bin/python" -c "import jsonschema" 2>/dev/null; then
    rm -rf "$folder/venv"
    if ! python3 -m venv "$folder/venv" || ! "$folder/venv/bin/python" -m pip install --quiet jsonschema==4.25.1; then
        echo "SKIPPED: jsonschema cannot be fetched, so no reply was compared with it"
        exit 77
    fi
fi
exec "$folder/venv/bin/python" -B "$here/constraint_schemas.py" "$pipe" 1000 jsonschema "$@"
