// SPDX-License-Identifier: Apache-2.0
#include "core/slurm_nodes.hpp"

#include "base/text.hpp"
#include "job/batch_system.hpp"

namespace nacre::core {
namespace {

constexpr event::Seconds kToWithdraw{20};    // for salloc to end, once its request was withdrawn
constexpr event::Seconds kWithdrawAgain{1};  // the first try may have come before the request
constexpr event::Seconds kToEnd{20};         // for all allocations to end, with the job
constexpr const char* kManager = "Slurm";

value::Hostlist common(const value::Hostlist& one, const value::Hostlist& other) {
  value::Hostlist out;
  for (const std::string& each : one.names()) {
    if (other.find(each)) out.append(each);
  }
  return out;
}

}  // namespace

SlurmNodes::SlurmNodes(plugin::Host& host, std::string job, bool is_led_on, WhenKilled when_killed)
    : host_(host),
      job_(std::move(job)),
      name_("nacre-" + host.job().id.f58_plain()),
      is_led_on_(is_led_on),
      when_killed_(std::move(when_killed)),
      asking_(host.loop(), host.children()),
      telling_(host.loop(), host.children()) {}

// ---- to get some -------------------------------------------------------------------------------

void SlurmNodes::ask(Wanted wanted, std::function<void(Result<Nodes>)> done) {
  if (stopped_) return done(Error{ECANCELED, "the job is ending"});
  requests_.push_back({std::move(wanted), std::move(done)});
  if (requests_.size() == 1) begin();
}

void SlurmNodes::begin() {
  if (requests_.empty()) return watch();
  Wanted& wanted = requests_.front().wanted;
  for (const auto& [id, hosts] : allocations_) wanted.without.append(hosts);
  wanted.without.uniq();
  is_withdrawn_ = false;
  reason_.clear();
  watch();
  SlurmCommand command = slurm_request({job_, name_, wanted.count, wanted.hosts, wanted.without});
  command.most = wanted.wait + kToWithdraw;
  auto timer = event::Timer::create(host_.loop(), [this] { withdraw(); });
  Result<void> started = timer ? asking_.start(std::move(command),
                                               [this](Result<std::string> answer) {
                                                 answer_ = std::move(answer);
                                                 settle();
                                               })
                               : Result<void>(timer.error());
  if (!started) {
    answer_ = started.error();
    return settle();
  }
  time_ = *std::move(timer);
  time_->start_grace(wanted.wait);
}

void SlurmNodes::withdraw() {
  is_withdrawn_ = true;
  ++withdrawing_;
  tell(slurm_withdraw(name_), [this](const Result<std::string>& reason) {
    --withdrawing_;
    if (reason && reason_.empty()) reason_ = trim(*reason);
    if (!reason) reason_ = reason.error().message;
    if (answer_) return settle();
    if (asking_.runs() && time_) time_->start(kWithdrawAgain);
  });
}

void SlurmNodes::settle() {
  if (withdrawing_ > 0) return;
  time_.reset();
  Request over = std::move(requests_.front());
  requests_.pop_front();
  Result<std::string> answer = *std::exchange(answer_, std::nullopt);
  Result<Nodes> nodes = answer ? granted(*answer) : Result<Nodes>(answer.error());
  if (is_withdrawn_ && nodes) {
    value::Hostlist late;
    for (const std::string& each : nodes->hosts) late.append(each);
    give_back(late, nullptr);
  }
  if (is_withdrawn_) nodes = not_granted(over.wanted);
  begin();
  over.done(std::move(nodes));
}

Result<SlurmNodes::Nodes> SlurmNodes::granted(const std::string& text) {
  std::string_view words = trim(text);
  std::string id(words.substr(0, words.find(' ')));
  auto hosts = value::Hostlist::parse(trim(words.substr(id.size())));
  if (!hosts || hosts->empty()) {
    tell(slurm_end(id), [](const Result<std::string>&) {});
    return Error{EPROTO, fmt::format("Slurm has given allocation {}, whose nodes cannot be read: {}; it is ended",
                                     id, in_quotes(words))};
  }
  allocations_[id] = *hosts;
  return Nodes{hosts->names(), slurm_agent(id)};
}

Error SlurmNodes::not_granted(const Wanted& wanted) const {
  if (stopped_) return {ECANCELED, "the job is ending"};
  std::string reason = reason_.empty() ? "" : fmt::format(" (pending: {})", reason_);
  return {ETIMEDOUT, fmt::format("Slurm has not given {} node{} within {:g} s{}: the request is withdrawn; give a "
                                 "longer --wait, or fewer nodes",
                                 wanted.count, wanted.count == 1 ? "" : "s", wanted.wait.count(), reason)};
}

// One without any of these hosts may be a user's, that has the name by chance.
void SlurmNodes::adopt(const value::Hostlist& here) {
  tell(slurm_list(name_), [this, here](const Result<std::string>& listed) {
    if (!listed) return host_.log().log(Level::debug, "", "grow: {}", listed.error().message);
    for (std::string_view line : split(trim(*listed), '\n')) {
      const std::size_t blank = std::min(line.find(' '), line.size());
      auto hosts = value::Hostlist::parse(trim(line.substr(blank)));
      if (!hosts || common(*hosts, here).empty()) continue;
      value::Hostlist unused = *hosts;
      unused.remove(common(*hosts, here));
      allocations_[std::string(line.substr(0, blank))] = *std::move(hosts);
      give_back(unused, nullptr);
    }
    watch();
  });
}

// ---- to give them back -------------------------------------------------------------------------

value::Hostlist SlurmNodes::held(const value::Hostlist& hosts) const {
  value::Hostlist out;
  for (const auto& [id, there] : allocations_) out.append(common(hosts, there));
  return out;
}

void SlurmNodes::give_back(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done) {
  struct Open {
    std::function<void(const Json& outcome)> done;
    ~Open() {
      if (done) done(nullptr);
    }
  };
  auto open = std::make_shared<Open>();
  open->done = std::move(done);
  for (auto& [allocation, there] : allocations_) {
    value::Hostlist leaving = common(hosts, there);
    if (leaving.empty()) continue;
    there.remove(leaving);
    SlurmCommand command = slurm_end(allocation);
    if (!there.empty()) {
      job::BatchSystem slurm;
      slurm.kind = job::BatchSystem::Kind::slurm;
      slurm.job = allocation;
      auto smaller = slurm.release(leaving);
      command = {smaller.name, smaller.argv};
    }
    // Allocations that Slurm does not change now end with the job.
    bool is_all = there.empty();
    tell(std::move(command), [this, open, leaving, is_all, id = allocation](const Result<std::string>& told) {
      if (is_all && told) allocations_.erase(id);
      watch();
      if (open->done) open->done(job::release_outcome(kManager, leaving, told));
    });
  }
}

void SlurmNodes::stop() {
  if (std::exchange(stopped_, true)) return;
  while (requests_.size() > 1) {
    auto done = std::move(requests_.back().done);
    requests_.pop_back();
    done(Error{ECANCELED, "the job is ending"});
  }
  if (!requests_.empty()) withdraw();
}

Result<void> SlurmNodes::end() {
  stop();
  if (allocations_.empty() && requests_.empty()) return {};
  tell(slurm_end_all(name_), [this](const Result<std::string>& told) {
    if (!told) ended_ = told.error();
  });
  bool late = false;
  auto timer = TRY(event::Timer::create(host_.loop(), [&late] { late = true; }));
  timer.start_grace(kToEnd);
  host_.loop().run_until([&] { return late || (told_.empty() && requests_.empty()); });
  if (late) return Error{ETIMEDOUT, fmt::format("Slurm has not answered within {:g} s", kToEnd.count())};
  allocations_.clear();
  if (ended_) watch();
  return ended_;
}

// ---- the commands ------------------------------------------------------------------------------

void SlurmNodes::tell(SlurmCommand command, task::CommandRun::WhenDone done) {
  told_.push_back({std::move(command), std::move(done)});
  if (told_.size() == 1) tell_next();
}

void SlurmNodes::tell_next() {
  while (!told_.empty() && !telling_.runs()) {
    Result<void> started = telling_.start(std::move(told_.front().command), [this](Result<std::string> answer) {
      auto done = std::move(told_.front().done);
      told_.pop_front();
      done(std::move(answer));
      tell_next();
    });
    if (started) return;
    auto done = std::move(told_.front().done);
    told_.pop_front();
    done(started.error());
  }
}

// Called before the first request, as salloc may be killed with this shell.
void SlurmNodes::watch() const {
  bool has_any = !allocations_.empty() || !requests_.empty();
  when_killed_(!has_any     ? std::vector<std::string>()
               : is_led_on_ ? slurm_withdraw(name_).argv
                            : slurm_end_all(name_).argv);
}

// ---- slurm commands ---------------------------------------------------------------------

namespace {

constexpr const char* kShell = "/bin/sh";

// Options of salloc and srun are variables as well, which the first allocation has set for itself. $1: the
// allocation, $2: the new one's name, $3: how many nodes, $4: which nodes, or "", $5: which not, or "".
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

// $1: the name.
constexpr const char* kList = R"sh(scancel --name="$1" --state=PENDING
exec squeue -h -n "$1" -t RUNNING -o '%i %N')sh";

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

// $1: the allocation, $2: the host; then words that a shell interprets, as with sshd.
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

SlurmCommand slurm_list(const std::string& name) {
  return {fmt::format("squeue -n {}", name), {kShell, "-c", kList, "squeue", name}};
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
