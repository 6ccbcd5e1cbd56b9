#!/bin/sh
# Installs the Debian packages that the tests use, or those named as arguments.
# Nothing happens when all are there. Without root or apt-get it names what is
# missing and goes on: tests skip what they cannot do, unless CI=true.
set -eu

packages=${*:-python3-torch python3-venv iproute2 iptables nftables gcc libc6-dev etcd-server munge slurmctld slurmd slurm-client openssh-server openssh-client dnsmasq-base openmpi-bin mpich}

# has PACKAGE: by what the tests call, so that a torch from pip counts as well.
has() {
	case $1 in
	python3-torch) has_torch /usr/bin/python3 || has_torch python3 ;;
	iproute2) PATH=$PATH:/sbin:/usr/sbin command -v ip >/dev/null ;;
	python3-venv) /usr/bin/python3 -c 'import venv' 2>/dev/null || python3 -c 'import venv' 2>/dev/null ;;
	iptables) PATH=$PATH:/sbin:/usr/sbin command -v iptables >/dev/null ;;
	nftables) PATH=$PATH:/sbin:/usr/sbin command -v nft >/dev/null ;;
	dnsmasq-base) PATH=$PATH:/usr/sbin command -v dnsmasq >/dev/null ;;
	gcc) command -v gcc >/dev/null ;;
	libc6-dev) [ -e /usr/include/stdio.h ] ;;
	openmpi-bin) command -v mpirun.openmpi >/dev/null ;;
	mpich) command -v mpiexec.hydra >/dev/null ;;
	etcd-server) [ -n "${GORUN_ETCD:-}" ] || command -v etcd >/dev/null ;;
	*) dpkg -s "$1" >/dev/null 2>&1 ;;
	esac
}

has_torch() {
	"$1" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null
}

missing=
for p in $packages; do
	has "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing:$missing (as root on Debian: apt-get install$missing); going on without" >&2
	exit 0
fi

echo "installing Debian packages:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# Tests start their own servers: no daemon of a package is to run. invoke-rc.d
# asks this program, which is nobody else's to keep.
policy=/usr/sbin/policy-rc.d
if [ -e "$policy" ]; then
	trap 'rm -f "$log"' EXIT
else
	trap 'rm -f "$log" "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
install() {
	# shellcheck disable=SC2086 # a list of words
	apt install -y -q --no-install-recommends $missing
}
# apt runs apt-get, keeps what it says in $log and shows how far it is.
apt() {
	"$(dirname "$0")/progress.sh" "apt-get $1" '' bash -o pipefail -c \
		'log=$1; shift; apt-get -o DPkg::Lock::Timeout=300 "$@" 2>&1 | tee "$log"' - "$log" "$@"
}
# The package lists of an image are often absent or old: fetch them only then.
if install || { apt update -q && install; }; then
	exit 0
fi
tail -n 20 "$log" >&2
echo "cannot install$missing" >&2
[ "${CI:-}" != true ]
