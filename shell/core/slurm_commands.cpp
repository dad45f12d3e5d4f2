// SPDX-License-Identifier: Apache-2.0
#include "core/slurm_commands.hpp"

#include <fmt/format.h>

namespace nacre::core {
namespace {

constexpr const char* kShell = "/bin/sh";

// Options of salloc and srun are variables, too, which the first allocation has set for itself. $1: the allocation,
// $2: the new one's name, $3: how many nodes, $4: which, or "", $5: which not, or "".
constexpr const char* kRequest = R"sh(set -f
job=$1 name=$2 count=$3 hosts=$4 without=$5
for each in salloc scontrol squeue scancel srun; do
  command -v "$each" >/dev/null && continue
  echo "$(uname -n), where the job's first shell runs, has no $each on its PATH: install Slurm's commands there" >&2
  exit 127
done
unset $(env | sed -n 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p; s/^\(SALLOC_[A-Z0-9_]*\)=.*/\1/p' | grep -vxF SLURM_CONF)
facts=$(scontrol -o show job "$job" | tr ' ' '\n') || exit
field() { printf '%s\n' "$facts" | sed -n "s/^$1=//p" | grep -vxE '\(null\)|N/A' | head -n 1; }
left=$(squeue -h -j "$job" -o %L) || exit
cpus=$(field NumCPUs) nodes=$(field NumNodes)
set -- --no-shell --no-bell --nodes="$count" --ntasks-per-node=1 --job-name="$name" --time="$left" \
  --cpus-per-task=$((${cpus%%-*} / ${nodes%%-*}))
add() { [ -z "$2" ] || given="$given $1=$2"; }
given=
add --partition "$(field Partition)"
add --account "$(field Account)"
add --qos "$(field QOS)"
add --gres "$(field TresPerNode | sed 's/^gres[:/]//; s/,gres[:/]/,/g')"
add --nodelist "$hosts"
add --exclude "$without"
[ "$(field OverSubscribe)" != NO ] || given="$given --exclusive"
said=$(salloc "$@" $given 2>&1 </dev/null); code=$?
id=$(printf '%s\n' "$said" | sed -n 's/^salloc: Granted job allocation \([0-9]*\)$/\1/p')
if [ "$code" != 0 ] || [ -z "$id" ]; then
  why=$(printf '%s\n' "$said" | grep 'error: ' | tail -n 1)
  printf '%s\n' "${why:-$said}" >&2; exit 1
fi
nodes=$(squeue -h -j "$id" -o %N) && [ -n "$nodes" ] || { scancel "$id"; exit 1; }
echo "$id $nodes")sh";

// $1: the name.
constexpr const char* kWithdraw = R"sh(squeue -h -n "$1" -t PENDING -o %r | head -n 1
exec scancel --name="$1" --state=PENDING)sh";

// $1: the allocation, $2: its name, $3: the step that this is in, $4: how often it looks.
constexpr const char* kEndLeft = R"sh(job=$1 name=$2 step=$3 looks=$4
[ "$(squeue -h -j "$job" -o %j)" = "$name" ] || exit 0
while [ "$looks" -gt 0 ]; do
  steps=$(squeue -h -s -j "$job" -o %i) || exit
  steps=$(printf '%s\n' "$steps" | sed -n 's/^ *[0-9]*\.\([0-9][0-9]*\) *$/\1/p')
  [ "$(printf '%s\n' "$steps" | sort -n | head -n 1)" = "$step" ] || exit 0
  [ "$steps" != "$step" ] || exec scancel --name="$name" "$job"
  sleep 1
  looks=$((looks - 1))
done)sh";

// $1: the allocation, $2: the host, and then words that a shell reads, as sshd's does.
constexpr const char* kAgent =
    R"sh(unset $(env | sed -n 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p' | grep -vxF SLURM_CONF)
job=$1 host=$2; shift 2
exec srun --jobid="$job" --nodes=1 --ntasks=1 --nodelist="$host" --mpi=none --kill-on-bad-exit=0 --wait=0 --quiet \
  /bin/sh -c "exec $*")sh";

}  // namespace

SlurmCommand slurm_request(const SlurmRequest& request) {
  std::string which = request.hosts.empty() ? "" : " -w " + request.hosts.str();
  return {fmt::format("salloc --no-shell -N {} -J {}{}", request.count, request.name, which),
          {kShell, "-c", kRequest, "salloc", request.job, request.name, fmt::format("{}", request.count),
           request.hosts.str(), request.without.str()}};
}

SlurmCommand slurm_withdraw(const std::string& name) {
  return {fmt::format("scancel --name={} --state=PENDING", name), {kShell, "-c", kWithdraw, "scancel", name}};
}

SlurmCommand slurm_end(const std::string& allocation) {
  return {fmt::format("scancel {}", allocation), {"scancel", allocation}};
}

SlurmCommand slurm_end_all(const std::string& name) {
  return {fmt::format("scancel --name={}", name), {"scancel", fmt::format("--name={}", name)}};
}

SlurmCommand slurm_end_left(const std::string& allocation, const std::string& name, const std::string& step) {
  constexpr int kLooks = 60;  // a second apart
  constexpr event::Seconds kMost{90};
  SlurmCommand out{fmt::format("scancel --name={} {}", name, allocation),
                   {kShell, "-c", kEndLeft, "scancel", allocation, name, step, fmt::format("{}", kLooks)}};
  out.most = kMost;
  return out;
}

std::vector<std::string> slurm_agent(const std::string& allocation) {
  return {kShell, "-c", kAgent, "srun", allocation};
}

}  // namespace nacre::core
