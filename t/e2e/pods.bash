# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.bash sets work
#
# Pods that become one job by --boot=index, all on this host.

unset "${!SLURM_@}" "${!PMI_@}" "${!PMIX_@}" "${!PET_@}" "${!LWS_@}" JOB_COMPLETION_INDEX NACRE_SIZE NACRE_INDEX NACRE_JOBS FLUX_JOB_ID \
  PBS_NODEFILE K_MPI_JOB_ROLE 2>/dev/null || :

make_secret() { (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$1"); }

# For the pods of a test: a secret, and a port that is free.
make_group() {
  make_secret secret
  export NACRE_SECRET_FILE=$work/secret NACRE_LEADER=127.0.0.1 NACRE_TIMEOUT=60
  NACRE_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  export NACRE_PORT
}

# in_pod INDEX COMMAND...: what it says is in said.INDEX, its code in said.INDEX.code.
in_pod() {
  local index=$1 code=0
  shift
  env JOB_COMPLETION_INDEX="$index" NACRE_SIZE="${size:-3}" timeout 100 "$@" >"${as:-said}.$index" 2>"${as:-said}.$index.err" </dev/null || code=$?
  echo "$code" >"${as:-said}.$index.code"
}

# kill_shell MARK: the shell that this value of NACRE_SHELL_ID names.
kill_shell() { pkill -KILL -f "^nacre-shell: ${1%.*} rank ${1#*.}/"; }
