#!/bin/sh
# run.sh PIPE KEEPER FOLDER - published.py in an environment of its own below FOLDER, made when it is not there. 77: it cannot be.
set -eu
pipe=$1 keeper=$2 folder=$3
here=$(dirname "$0")
mkdir -p "$folder"
if ! "$folder/venv/bin/python" -c "import jinja2" 2>/dev/null; then
    rm -rf "$folder/venv"
    if ! python3 -m venv "$folder/venv" || ! "$folder/venv/bin/python" -m pip install --quiet jinja2==3.1.6; then
        echo "SKIPPED: jinja2 cannot be fetched, so no published template was compared"
        exit 77
    fi
fi
exec "$folder/venv/bin/python" -B "$here/published.py" "$pipe" "$keeper" "$folder"
