#!/bin/sh
# Takes the place of ssh for Hydra and Open MPI: drops the options and the host
# name and runs the command here, so that N nodes fit on one machine. Open MPI's
# have folders of their own for temporary files, as on machines of their own; the
# benchmark has made them.
while [ "${1#-}" != "$1" ]; do shift; done
if [ -n "$BENCH_TMPDIR" ]; then export TMPDIR="$BENCH_TMPDIR/$1"; fi
shift
exec /bin/sh -c "$*"
