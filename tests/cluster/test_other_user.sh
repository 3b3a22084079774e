# SPDX-License-Identifier: BSD-3-Clause
# Another local user cannot run commands under a private Slurm, neither with its slurm.conf nor with a copy of
# it, whether root or an ordinary user started it. Its owner can. A cluster does not start in a folder in
# which other users could replace it.
. "$TOP/tests/cluster/lib.sh"
devcluster=$(cat "$TOP/tools/devcluster/devcluster") # other users may not read the source tree
outside=$(mktemp -d /tmp/sluice-other-user.XXXXXX) || fail "no folder in /tmp"
chmod 711 "$outside"
owned=
leave() {
	[ -z "$owned" ] || as "$owner" bash -c "$devcluster" devcluster stop -d "$owned"
	rm -rf "$outside"
}
trap leave EXIT

as() { # USER COMMAND...: runs it in /, which every user may enter
	local user=$1
	shift
	(cd / && HOME=/ exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@")
}

# All files of the cluster are below one folder, which only its owner can enter.
closed() { # FOLDER
	local mode
	mode=$(stat -c %a "$1") || fail "no folder $1"
	[ "$mode" = 700 ] || fail "$1 has mode $mode: other users may enter it"
}

# refused USER FOLDER: fails if srun of USER runs anything, with the slurm.conf in FOLDER or with a readable
# copy of it.
refused() { # USER FOLDER
	local conf said
	mkdir -p "$outside/copy"
	cp "$2/slurm.conf" "$2/cgroup.conf" "$outside/copy"
	chmod -R a+rX "$outside/copy"
	for conf in "$2" "$outside/copy"; do
		said=$(as "$1" env SLURM_CONF="$conf/slurm.conf" timeout 5 srun -n1 sh -c 'echo ran as $(id -u)' 2>&1)
		case $said in *'ran as '*) fail "srun of user $1 with $conf/slurm.conf $said" ;; esac
		echo "user $1 with $conf/slurm.conf: ${said##*$'\n'}"
	done
}

closed "${SLURM_CONF%/*}"
mkdir -m 777 "$outside/open"
said=$(bash -c "$devcluster" devcluster start -n 1 -d "$outside/open/dc" 2>&1) &&
	{ bash -c "$devcluster" devcluster stop -d "$outside/open/dc"; fail "a cluster was started in a folder of mode 777"; }
case $said in *"$outside/open has mode 777"*) ;; *) fail "a folder of mode 777: $said" ;; esac
[ "$(id -u)" = 0 ] || skip "only root can test the private Slurm as another user"

owner=nobody other=daemon
refused $other "${SLURM_CONF%/*}"
owned=$(as $owner env TMPDIR=/tmp bash -c "$devcluster" devcluster start -n 1 | sed -n 's,^export SLURM_CONF=\(.*\)/slurm.conf$,\1,p')
[ -n "$owned" ] || fail "user $owner cannot start a cluster"
closed "$owned"
said=$(as $owner env SLURM_CONF="$owned/slurm.conf" timeout 20 srun --mpi=pmix -n1 sh -c 'echo $(id -u), umask $(umask)') ||
	fail "user $owner cannot use their own cluster: $said"
[ "$said" = "$(id -u $owner), umask $(umask)" ] || fail "a job of user $owner ran as $said"
refused $other "$owned"
echo "| srun of user $other ran nothing in the clusters of root and of $owner"
