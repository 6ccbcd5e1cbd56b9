#!/bin/sh
# Takes the place of ssh for Hydra and Open MPI: drops the options and the host
# name and runs the command here, so that N nodes fit on one machine. Each has
# its own folder for temporary files, as it would on a machine of its own; the
# benchmark has made it.
while [ "${1#-}" != "$1" ]; do shift; done
export TMPDIR="$TMPDIR/$1"
shift
exec /bin/sh -c "$*"
