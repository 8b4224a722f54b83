#!/usr/bin/env bash
# run.sh KVFERRY SOURCE TOOLS - fetches the tools that are missing, then checks the chart.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/tools.sh" "$3"
exec "$3/deploy-venv/bin/python" -B "$here/chart_test.py" "$1" "$2" "$3"
