#!/bin/sh
# one_cpu.sh PROGRAM ARGUMENTS...: runs it on the first CPU that is allowed, alone.
exec taskset -c "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)" "$@"
