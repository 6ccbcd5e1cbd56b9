#!/bin/sh
# Takes the place of ssh for Hydra and Open MPI: drops the options and the host
# name and runs the command here, so that N nodes fit on one machine.
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec /bin/sh -c "$*"
