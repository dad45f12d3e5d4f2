// SPDX-License-Identifier: Apache-2.0
#include "job/job.hpp"

#include "base/program.hpp"
#include "base/text.hpp"
#include "job/jobspec.hpp"
#include "job/options.hpp"

namespace nacre::job {
namespace {

void set_both(Environment& env, std::string_view name, std::string_view value) {
  env.set(fmt::format("FLUX_{}", name), value);
  env.set(fmt::format("NACRE_{}", name), value);
}

Error no_shell(std::uint32_t shell_rank, std::size_t nodes) {
  return Error{ENOENT, fmt::format("no shell rank {}: R has {} node{}", shell_rank, nodes, nodes == 1 ? "" : "s")};
}

Json number_or_unset(const std::optional<std::uint32_t>& number) { return number ? Json(*number) : Json(-1); }

}  // namespace

namespace {

// The first so many.
value::Idset first_of(const value::Idset& ids, std::uint64_t count) {
  if (count >= ids.size()) return ids;
  return count == 0 ? value::Idset() : ids & value::Idset::range(0, *ids.nth(count - 1));
}

// The first so many of `ids`; the others are `more`.
void keep_first(std::uint64_t count, value::Idset& ids, value::Idset& more) {
  value::Idset kept = first_of(ids, count);
  more = more | (ids - kept);
  ids = std::move(kept);
}

void choose(const value::Idset& chosen, value::Idset& ids, value::Idset& more) {
  const value::Idset all = ids | more;
  if (chosen.size() != ids.size() || !(chosen - all).empty()) return;
  ids = chosen;
  more = all - chosen;
}

// Slots without a task do not add to what tasks get, as in flux-shell: if there are fewer tasks than slots on
// several nodes, the tasks of a node have the cores and gpus of as many slots.
//
// A slot that asks for no gpu still has its share of those that R has.
void leave_out_empty_slots(const Jobspec& spec, const std::vector<NodeShare>& shares, Resources& resources) {
  std::uint64_t gpus = 0;
  for (const NodeResources& node : resources.nodes) gpus += node.gpus.size();
  const std::uint64_t gpus_each = spec.gpus_per_slot > 0 ? spec.gpus_per_slot : gpus / spec.slots;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    NodeResources& node = resources.nodes[i];
    if (shares[i].tasks == 0) continue;
    node.cores = first_of(node.cores, std::uint64_t{shares[i].tasks} * spec.cores_per_slot);
    if (gpus_each > 0) node.gpus = first_of(node.gpus, shares[i].tasks * gpus_each);
  }
}

Result<void> check_spares(std::size_t nodes, std::uint32_t spares) {
  if (spares < nodes) return {};
  return invalid(fmt::format("spares: {}, but R has {} node{}: at least one has to be left for tasks", spares,
                             nodes, nodes == 1 ? "" : "s"));
}

// `most`: nodes besides the spares.
void ask_for_fewer_nodes(Jobspec& spec, std::size_t most) {
  spec.nodes = static_cast<std::uint32_t>(most);
  spec.slots = *spec.nodes * spec.slots_per_node.value_or(1);
}

// Like distribute(), over the nodes of R that are no spares.
Result<std::vector<NodeShare>> distribute_beside(std::uint32_t spares, Jobspec& spec, Resources& resources,
                                                 const std::optional<PerResource>& per_resource,
                                                 bool oversubscribe) {
  std::vector<NodeResources>& nodes = resources.nodes;
  std::size_t all = nodes.size();
  std::size_t most = all - spares;
  if (spec.nodes && *spec.nodes > most && *spec.nodes <= all) ask_for_fewer_nodes(spec, most);
  std::vector<NodeResources> left_out(std::make_move_iterator(nodes.begin() + static_cast<std::ptrdiff_t>(most)),
                                      std::make_move_iterator(nodes.end()));
  nodes.resize(most);
  auto shares = distribute(spec, resources, per_resource, oversubscribe);
  std::move(left_out.begin(), left_out.end(), std::back_inserter(nodes));
  if (!shares) {
    Error why = shares.error();
    why.message += fmt::format(" (and {} spare{})", spares, spares == 1 ? "" : "s");
    return why;
  }
  shares->resize(all);
  return shares;
}

bool wants_ascii_id(const Jobspec& spec) {
  std::map<std::string_view, std::string_view> given;
  for (const auto& [name, value] : spec.environment) given.emplace(name, value);
  if (given.contains("FLUX_F58_FORCE_ASCII")) return true;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is not empty counts
    if (auto found = given.find(name); found != given.end() && !found->second.empty())
      return !is_utf8_locale(found->second);
  }
  return false;
}

}  // namespace

Result<Job> Job::create(value::JobId id, std::uint32_t shell_rank, Jobspec spec, Resources resources,
                        const std::optional<PerResource>& per_resource, bool oversubscribe, std::uint32_t spares) {
  if (shell_rank >= resources.nodes.size()) return no_shell(shell_rank, resources.nodes.size());
  CHECK_OK(check_spares(resources.nodes.size(), spares));
  CHECK_OK(settle_counts(resources, spec));
  std::vector<NodeShare> shares =
      spares == 0 ? TRY(distribute(spec, resources, per_resource, oversubscribe))
                  : TRY(distribute_beside(spares, spec, resources, per_resource, oversubscribe));
  bool has_empty_slots = spec.nodes.value_or(1) > 1 && spec.tasks() < spec.slots;
  if (has_empty_slots && !resources.is_made && !spec.node_exclusive && !per_resource)
    leave_out_empty_slots(spec, shares, resources);
  std::vector<std::uint32_t> tasks;
  tasks.reserve(shares.size());
  for (const NodeShare& share : shares) tasks.push_back(share.tasks);
  bool has_ascii_id = wants_ascii_id(spec);
  return Job{id,
             shell_rank,
             std::move(spec),
             std::move(resources),
             std::move(shares),
             value::Taskmap::block(tasks),
             has_ascii_id,
             spares};
}

void Job::take_what_was_asked(bool cores, bool shares_cores) {
  const bool has_task_each = spec.tasks() == spec.slots;  // so that a slot's are a task's
  if (has_task_each) gpus_each = spec.gpus_per_slot;
  if (has_task_each && cores) cores_each = spec.cores_per_slot;
  const bool cuts_cores = cores && !shares_cores && !spec.node_exclusive;
  for (std::size_t i = 0; i < nodes(); ++i) {
    NodeResources& node = resources.nodes[i];
    const std::uint64_t slots = shares[i].slots;
    if (spec.gpus_per_slot > 0) keep_first(slots * spec.gpus_per_slot, node.gpus, node.more_gpus);
    if (cuts_cores && slots > 0) keep_first(slots * spec.cores_per_slot, node.cores, node.more_cores);
  }
}

void Job::choose_cores(const value::Idset& ids) {
  NodeResources& own = resources.nodes[shell_rank];
  choose(ids, own.cores, own.more_cores);
}

void Job::choose_gpus(const value::Idset& ids) {
  NodeResources& own = resources.nodes[shell_rank];
  choose(ids, own.gpus, own.more_gpus);
}

std::string Job::name() const {
  static const Json::json_pointer path("/attributes/system/job/name");
  if (const Json& name = find_at(spec.document, path); name.is_string()) return name.get<std::string>();
  const std::string& program = spec.command.front();
  return program.substr(program.rfind('/') + 1);
}

Json Job::jobspec_info() const {
  return {{"version", spec.version},
          {"ntasks", tasks()},
          {"nslots", spec.slots},
          {"cores_per_slot", spec.cores_per_slot},
          {"gpus_per_slot", spec.gpus_per_slot},
          {"nnodes", number_or_unset(spec.nodes)},
          {"slots_per_node", number_or_unset(spec.slots_per_node)},
          {"node_exclusive", spec.node_exclusive}};
}

Result<Json> Job::rank_info(std::uint32_t rank) const {
  if (rank >= shells()) return no_shell(rank, shells());
  const NodeResources& on = resources.nodes[rank];
  // Plugins rely on gpus being there, as "", even if there are none.
  Json ids = {{"ncores", on.cores.size()}, {"cores", on.cores.str()}, {"gpus", on.gpus.str()}};
  return Json{{"id", rank},
              {"name", on.hostname},
              {"broker_rank", on.broker_rank},
              {"ntasks", taskmap.tasks_on(rank)},
              {"taskids", taskmap.ranks_on(rank).str()},
              {"resources", std::move(ids)}};
}

std::string shell_mark(const value::JobId& id, std::uint32_t shell_rank) {
  return fmt::format("{}.{}", id.f58_plain(), shell_rank);
}

void set_size_variables(Environment& env, const Job& job) {
  set_both(env, "JOB_SIZE", fmt::format("{}", job.tasks()));
  set_both(env, "JOB_NNODES", fmt::format("{}", job.nodes_in_use()));
}

void set_job_variables(Environment& env, const Job& job, const std::string& tmpdir) {
  set_both(env, "JOB_ID", job.f58());
  set_both(env, "JOB_ID_PATH", "/" + job.f58());
  set_size_variables(env, job);
  env.set(kShellMark, shell_mark(job.id, job.shell_rank));
  if (!tmpdir.empty()) set_both(env, "JOB_TMPDIR", tmpdir);
}

void set_task_variables(Environment& env, std::uint64_t rank, std::uint32_t local_id) {
  set_both(env, "TASK_RANK", fmt::format("{}", rank));
  set_both(env, "TASK_LOCAL_ID", fmt::format("{}", local_id));
}

void set_attempt_variables(Environment& env, std::uint32_t attempt, std::uint64_t restarts) {
  env.set("NACRE_TASK_TRY", fmt::format("{}", attempt));
  env.set("NACRE_JOB_RESTARTS", fmt::format("{}", restarts));
}

Result<std::size_t> tasks_at_once(const Options& options, const Job& job, std::size_t tasks) {
  auto most = TRY(AtMost::read(options)).on(job.node().cores.size(), job.spec.cores_per_slot);
  return std::min<std::size_t>(tasks, most.value_or(UINT32_MAX));
}

// ---- moves ------------------------------------------------------------------------------

namespace {

// The moves of a job since it was resized, or began.
std::span<const Move> moves_that_count(const Job& job) {
  return std::span(job.moves).subspan(job.resizes.empty() ? 0 : job.resizes.back().moves);
}

}  // namespace

bool Job::is_spare(std::uint32_t shell) const {
  const bool had_none = resizes.empty() ? shell >= nodes() : !resizes.back().shells.contains(shell);
  const auto since = moves_that_count(*this);
  return had_none && shell < shells() && has_come(shell) && !unfit.contains(shell) &&
         std::none_of(since.begin(), since.end(), [&](const Move& each) { return each.to == shell; });
}

value::Idset Job::spare_shells() const {
  value::Idset out;
  for (std::uint32_t shell = resizes.empty() ? nodes() : 0; shell < shells(); ++shell) {
    if (is_spare(shell)) out.insert(shell);
  }
  return out;
}

value::Idset Job::all_ranks() const { return value::Idset::range(0, static_cast<value::Idset::Id>(tasks() - 1)); }

value::Idset Job::shells_that_came() const {
  value::Idset out;
  for (std::uint32_t shell = 0; shell < shells(); ++shell) {
    if (has_come(shell)) out.insert(shell);
  }
  return out;
}

void Job::grow(std::vector<NodeResources> more) {
  for (NodeResources& each : more) add_node(resources, std::move(each));
  shares.resize(shells());
  spares += static_cast<std::uint32_t>(more.size());
}

void Job::move(Move tasks) {
  std::vector<std::uint32_t> node_of(taskmap.tasks());
  for (std::uint32_t shell = 0; shell < shells(); ++shell) {
    for (value::Idset::Id rank : taskmap.ranks_on(shell).ids()) node_of[rank] = shell;
  }
  for (value::Idset::Id rank : tasks.ranks.ids()) node_of[rank] = tasks.to;
  taskmap = value::Taskmap::of(node_of);
  moves.push_back(std::move(tasks));
  ++restarts;
}

void Job::start_again(const value::Idset& ranks) {
  for (value::Idset::Id rank : ranks.ids()) starts[rank] = attempt_of(rank) + 1;
  ++restarts;
}

std::uint32_t Job::attempt_of(value::Idset::Id rank) const {
  const auto since = moves_that_count(*this);
  auto last =
      std::find_if(since.rbegin(), since.rend(), [&](const Move& each) { return each.ranks.contains(rank); });
  auto here = starts.find(rank);
  return std::max(last == since.rend() ? 1 : last->attempt, here == starts.end() ? 1 : here->second);
}

bool Job::has_had(std::uint32_t shell, value::Idset::Id rank) const {
  auto has_left = [&](const Move& each) { return each.from == shell && each.ranks.contains(rank); };
  return taskmap.node_of(rank) == shell || std::any_of(moves.begin(), moves.end(), has_left) ||
         std::any_of(resizes.begin(), resizes.end(),
                     [&](const Resize& each) { return each.before.node_of(rank) == shell; });
}

bool Job::tasks_have_left(std::uint32_t shell) const {
  return std::any_of(moves.begin(), moves.end(), [shell](const Move& each) { return each.from == shell; });
}

std::uint32_t Job::stands_for(std::uint32_t shell) const {
  const auto since = moves_that_count(*this);
  auto has_own = [this](std::uint32_t each) {
    return resizes.empty() ? each < nodes() : resizes.back().shells.contains(each);
  };
  for (auto each = since.begin(); !has_own(shell) && each != since.end();) {
    each = std::find_if(since.begin(), since.end(), [&](const Move& move) { return move.to == shell; });
    if (each != since.end()) shell = each->from;
  }
  if (resizes.empty() || !has_own(shell)) return shell;
  return static_cast<std::uint32_t>((resizes.back().shells & value::Idset::range(0, shell)).size() - 1);
}

bool Job::is_left_out(std::uint32_t shell) const {
  return taskmap.tasks_on(shell) == 0 && std::any_of(resizes.begin(), resizes.end(), [&](const Resize& each) {
           return each.before.tasks_on(shell) > 0;
         });
}

// ---- resizes ----------------------------------------------------------------------------

std::uint32_t Job::nodes_in_use() const {
  return resizes.empty() ? nodes() : static_cast<std::uint32_t>(resizes.back().shells.size());
}

// If a lost shell was replaced, the shells that have its tasks are in use.
value::Idset Job::shells_in_use() const {
  value::Idset out = resizes.empty() ? value::Idset::range(0, nodes() - 1) : resizes.back().shells;
  for (const Move& each : moves_that_count(*this)) {
    out.remove(each.from);
    out.insert(each.to);
  }
  return out;
}

Result<void> Job::allow_resizes() {
  if (!spec.node_counts || spec.node_counts->is_fixed())
    return invalid("resize: the jobspec asks for one number of nodes; a range is needed, as -N 2:8 has it");
  if (spares > 0) return invalid("resize: a job whose size changes has no spares at its start: leave them out");
  const bool is_even = spec.tasks() == std::uint64_t{*spec.nodes} * taskmap.tasks_on(0) &&
                       taskmap == value::Taskmap::block(std::vector(*spec.nodes, taskmap.tasks_on(0)));
  if (!is_even || spec.count == Jobspec::Count::total || spec.slot_counts)
    return invalid("resize: each node has to have as many tasks as the jobspec has slots for it, and as another");
  tasks_each = taskmap.tasks_on(0);
  const std::uint32_t most = std::min(Resources::kMaxNodes, Jobspec::kMaxCount / tasks_each);
  task_limit = std::uint64_t{spec.node_counts->largest(most).value_or(*spec.nodes)} * tasks_each;
  return {};
}

Result<value::Idset> Job::shells_for(const value::Idset& shells) const {
  const value::Idset now = shells_in_use() & shells;
  auto nodes = spec.node_counts->largest(static_cast<std::uint32_t>(shells.size()));
  if (!nodes)
    return Error{ENOSPC,
                 fmt::format("{} {} left, and the job needs at least {} (-N {})",
                             shells.empty() ? "no node" : counted(shells.size(), "node"),
                             shells.size() <= 1 ? "is" : "are", spec.node_counts->min(), spec.node_counts->str())};
  value::Idset out = first_of(now, *nodes);
  return out | first_of(shells - now, *nodes - out.size());
}

void Job::resize(const value::Idset& shells) {
  std::uint32_t attempt = 1;
  const std::uint64_t before = tasks();
  for (std::uint64_t rank = 0; rank < before; ++rank)
    attempt = std::max(attempt, attempt_of(static_cast<value::Idset::Id>(rank)));
  resizes.push_back({shells, static_cast<std::uint32_t>(moves.size()), std::move(taskmap)});
  std::vector<std::uint32_t> on(*shells.last() + 1);
  for (std::uint32_t shell : shells.ids()) on[shell] = tasks_each;
  taskmap = value::Taskmap::block(on);
  // Ranks that do not exist any more may exist again: late reports about them have to be known as such.
  for (std::uint64_t rank = 0; rank < std::max(before, tasks()); ++rank)
    starts[static_cast<value::Idset::Id>(rank)] = attempt + 1;
  ++restarts;
  spec.nodes = static_cast<std::uint32_t>(shells.size());
  spec.slots = *spec.nodes * spec.slots_per_node.value_or(1);
  shares.assign(this->shells(), {});
  for (std::uint32_t shell : shells.ids()) shares[shell] = {spec.slots_per_node.value_or(1), tasks_each};
}

// ---- leavers ----------------------------------------------------------------------------

namespace {

using value::Idset;

Error no_longer(std::string_view what) { return invalid(fmt::format("{} is not of the job any more", what)); }

Result<Idset> named(const Idset& shells, const Job& job, const Idset& gone) {
  Idset unknown = shells - Idset::range(0, job.shells() - 1);
  if (!unknown.empty())
    return invalid(fmt::format("shell {}: the job has shells 0 to {}", unknown.str(), job.shells() - 1));
  Idset left = shells - gone;
  if (left.empty()) return no_longer("shell " + shells.str());
  return left;
}

Result<Idset> on_hosts(const value::Hostlist& hosts, const Job& job, const Idset& gone) {
  Idset out;
  for (const std::string& name : hosts.names()) {
    bool any = false;
    for (std::uint32_t shell = 0; shell < job.shells(); ++shell) {
      if (job.resources.nodes[shell].hostname != name) continue;
      any = true;
      if (!gone.contains(shell)) out.insert(shell);
    }
    if (!any) return invalid(fmt::format("{} is no host of this job", name));
  }
  if (out.empty()) return no_longer(hosts.str());
  return out;
}

Result<Idset> last_ones(std::uint64_t wanted, const Job& job, const Idset& gone) {
  Idset out;
  // Spares have no tasks, and are the last.
  for (bool with_tasks : {false, true}) {
    for (std::uint32_t shell = job.shells(); shell-- > 0 && out.size() < wanted;) {
      if (shell != job.leader && !gone.contains(shell) && job.taskmap.ranks_on(shell).empty() != with_tasks)
        out.insert(shell);
    }
  }
  if (out.size() == wanted) return out;
  return invalid(fmt::format("{} shells can leave this job, not {}; shell {}, which leads it, stays", out.size(),
                             wanted, job.leader));
}

Result<Idset> chosen(const value::ShrinkOrder& order, const Job& job, const Idset& gone, const Idset& leaving) {
  if (order.count > 0) return last_ones(order.count, job, gone | leaving);
  if (!order.hosts.empty()) return on_hosts(order.hosts, job, gone);
  return named(order.shells, job, gone);
}

}  // namespace

Result<Idset> leavers(const value::ShrinkOrder& order, const Job& job, const Idset& gone, const Idset& leaving) {
  Idset out = TRY(chosen(order, job, gone, leaving));
  if (out.contains(job.leader))
    return invalid(fmt::format("shell {}{} leads the job, and cannot leave it", job.leader,
                               job.resources.nodes[job.leader].on()));
  for (std::uint32_t shell : order.refuse_tasks ? out.ids() : std::vector<Idset::Id>()) {
    Idset there = job.taskmap.ranks_on(shell);
    if (!there.empty()) {
      return Error{EBUSY, fmt::format("shell {}{} has tasks {}; tasks=end ends them", shell,
                                      job.resources.nodes[shell].on(), there.str())};
    }
  }
  return out;
}

value::Hostlist hosts_of(const Idset& shells, const Job& job) {
  value::Hostlist out;
  for (std::uint32_t shell : shells.ids()) {
    if (shell < job.shells() && !job.resources.nodes[shell].hostname.empty())
      out.append(job.resources.nodes[shell].hostname);
  }
  return out;
}

// ---- distribute -------------------------------------------------------------------------
//
// The rule, with C cores and G gpus a slot:
//
// 1. A node of R offers floor(its cores / C) slots; if G > 0, no more than floor(its gpus / G).
// 2. If the jobspec has a node vertex, N nodes with S slots each: the first N nodes, by rank, that offer at least S
//    have S slots each. Other nodes of R have none. `exclusive` changes nothing: R then has more cores, but the job
//    has no more slots.
// 3. If the jobspec has only a slot vertex, S slots: they are dealt (see below) to the nodes, to each no more
//    than it offers.
// 4. With T tasks for S slots in all, each slot has floor(T / S) tasks; the T mod S tasks that are left are
//    dealt to the nodes, to each no more than it has slots. So the slots differ by at most one task, whether there
//    are more tasks than slots or fewer. T is the jobspec's `total`, or `per_slot` times S.
// 5. The option per-resource sets the tasks of each node of R to its count, or to its count times the node's
//    cores. The slots do not change.
// 6. The option oversubscribe: a node may have more slots than its cores hold, but not than its gpus do. What the
// cores hold is
//    dealt first, as by 3; what is left is dealt to all nodes alike.
//
// To deal means to go round the nodes by rank, and to give each that has room one more, until all are dealt. The
// code finds the number of rounds by bisection.
//
// Flux's shell puts more slots on a node than it has cores for, as long as there is a core for each task in all.
// Here this is an error: an R that does not hold its jobspec was not made for it.

namespace {

std::uint64_t sum_up_to(const std::vector<std::uint32_t>& room, std::uint32_t level) {
  std::uint64_t sum = 0;
  for (std::uint32_t each : room) sum += std::min(each, level);
  return sum;
}

// Deals `count` things to places with this room, which is enough.
std::vector<std::uint32_t> deal(std::uint64_t count, std::vector<std::uint32_t> room) {
  // The number of rounds in which every place with room gets one lies between `level` and `above`, exclusive.
  std::uint32_t level = 0;
  std::uint32_t above = Jobspec::kMaxCount + 1;
  while (above - level > 1) {
    std::uint32_t middle = level + (above - level) / 2;
    (sum_up_to(room, middle) <= count ? level : above) = middle;
  }
  std::uint64_t left = count - sum_up_to(room, level);
  for (std::uint32_t& each : room) {
    bool one_more = each > level && left > 0;
    each = std::min(each, level) + (one_more ? 1 : 0);
    if (one_more) --left;
  }
  return room;
}

// "4 slots of 2 cores and 1 gpu"
std::string slots_text(const Jobspec& spec, std::uint64_t slots) {
  std::string text = fmt::format("{} of {}", counted(slots, "slot"), counted(spec.cores_per_slot, "core"));
  if (spec.gpus_per_slot > 0) text += " and " + counted(spec.gpus_per_slot, "gpu");
  return text;
}

// `oversubscribe`: as far as the gpus go.
std::vector<std::uint32_t> offered_slots(const Jobspec& spec, const Resources& resources, bool oversubscribe) {
  std::vector<std::uint32_t> offers;
  offers.reserve(resources.nodes.size());
  for (const NodeResources& node : resources.nodes) {
    std::uint64_t slots = oversubscribe ? Jobspec::kMaxCount : node.cores.size() / spec.cores_per_slot;
    if (spec.gpus_per_slot > 0) slots = std::min(slots, node.gpus.size() / spec.gpus_per_slot);
    offers.push_back(static_cast<std::uint32_t>(slots));
  }
  return offers;
}

// Whether the slots would not fit either if the nodes had any number of cores.
bool lacks_gpus(const Jobspec& spec, const Resources& resources) {
  if (spec.gpus_per_slot == 0) return false;
  std::vector<std::uint32_t> offers = offered_slots(spec, resources, true);
  if (!spec.nodes) return sum_up_to(offers, Jobspec::kMaxCount) < spec.slots;
  std::uint32_t each = spec.slots_per_node.value_or(1);
  return std::count_if(offers.begin(), offers.end(), [each](std::uint32_t offer) { return offer >= each; }) <
         *spec.nodes;
}

// "; n0 has 2 cores, n1 has 4 cores and 1 gpu: fewer tasks (-n), ...": of the first hosts, if they have names; else
// "".
std::string remedy(const Jobspec& spec, const Resources& resources) {
  constexpr std::size_t kNamed = 3;
  if (resources.nodes[0].hostname.empty()) return "";
  std::string out;
  for (std::size_t i = 0; i < std::min(kNamed, resources.nodes.size()); ++i) {
    const NodeResources& node = resources.nodes[i];
    out += fmt::format("{} {} has {}", i == 0 ? ";" : ",", node.hostname, counted(node.cores.size(), "core"));
    if (spec.gpus_per_slot > 0) out += " and " + counted(node.gpus.size(), "gpu");
  }
  if (resources.nodes.size() > kNamed) out += fmt::format(", and {} more", resources.nodes.size() - kNamed);
  return out + (lacks_gpus(spec, resources) ? ": fewer tasks (-n) or fewer gpus a task (-g)"
                                            : ": fewer tasks (-n), fewer cores a task (-c), or --oversubscribe");
}

Result<std::vector<std::uint32_t>> slots_by_node(const Jobspec& spec, const Resources& resources,
                                                 std::vector<std::uint32_t> offers) {
  std::uint32_t nodes = *spec.nodes;
  std::uint32_t slots_each = spec.slots_per_node.value_or(1);
  if (nodes > offers.size()) {
    return invalid(fmt::format("jobspec asks for {}; R has {}", counted(nodes, "node"), offers.size()));
  }
  std::uint32_t taken = 0;
  for (std::uint32_t& each : offers) {
    bool take = taken < nodes && each >= slots_each;
    each = take ? slots_each : 0;
    if (take) ++taken;
  }
  if (taken == nodes) return offers;
  return invalid(fmt::format("jobspec asks for {} with {} each; R has {} such{}", counted(nodes, "node"),
                             slots_text(spec, slots_each), taken, remedy(spec, resources)));
}

Result<std::vector<std::uint32_t>> place_slots(const Jobspec& spec, const Resources& resources,
                                               bool oversubscribe) {
  std::vector<std::uint32_t> offers = offered_slots(spec, resources, oversubscribe);
  if (spec.nodes) return slots_by_node(spec, resources, std::move(offers));
  std::uint64_t room = sum_up_to(offers, Jobspec::kMaxCount);
  if (spec.slots > room) {
    return invalid(fmt::format("jobspec asks for {}; R has room for {}{}", slots_text(spec, spec.slots), room,
                               remedy(spec, resources)));
  }
  if (!oversubscribe) return deal(spec.slots, std::move(offers));
  std::vector<std::uint32_t> own = offered_slots(spec, resources, false);
  std::uint64_t fitting = std::min<std::uint64_t>(spec.slots, sum_up_to(own, Jobspec::kMaxCount));
  std::vector<std::uint32_t> first = deal(fitting, std::move(own));
  for (std::size_t i = 0; i < offers.size(); ++i) offers[i] -= first[i];
  std::vector<std::uint32_t> rest = deal(spec.slots - fitting, std::move(offers));
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += rest[i];
  return first;
}

std::vector<NodeShare> place_tasks(const Jobspec& spec, const std::vector<std::uint32_t>& slots) {
  std::uint64_t each = spec.tasks() / spec.slots;
  std::vector<std::uint32_t> rest = deal(spec.tasks() % spec.slots, slots);
  std::vector<NodeShare> shares;
  shares.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    shares.push_back({slots[i], static_cast<std::uint32_t>(each * slots[i] + rest[i])});
  }
  return shares;
}

Result<void> set_tasks(const PerResource& option, const Resources& resources, std::vector<NodeShare>& shares) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    std::uint64_t units = option.type == PerResource::Type::core ? resources.nodes[i].cores.size() : 1;
    total += option.count * units;
    shares[i].tasks = static_cast<std::uint32_t>(option.count * units);
  }
  if (total <= Jobspec::kMaxCount) return {};
  return invalid(fmt::format("per-resource: {} tasks in all; at most {}", total, Jobspec::kMaxCount));
}

}  // namespace

Result<PerResource> PerResource::from_json(const Json& option) {
  JsonAt at = JsonAt::root(option, "per-resource");
  CHECK_OK(at.only_keys({"type", "count"}));
  JsonAt type = TRY(at.at("type"));
  std::string name = TRY(type.string());
  if (name != "core" && name != "node") return type.expected("core or node");
  PerResource out;
  out.type = name == "core" ? Type::core : Type::node;
  if (auto count = TRY(at.find("count")))
    out.count = static_cast<std::uint32_t>(TRY(count->integer(1, Jobspec::kMaxCount)));
  return out;
}

Result<Oversubscribe> oversubscribe_of(const JsonAt& option) {
  if (option.json() == "share") return Oversubscribe::share;
  auto is_on = switch_of(option);
  if (!is_on) return option.expected("true, false or share");
  return *is_on ? Oversubscribe::yes : Oversubscribe::no;
}

Result<std::uint32_t> spares_of(const Options& options) {
  auto option = options.at("spares");
  if (!option) return std::uint32_t{0};
  return static_cast<std::uint32_t>(TRY(option->integer(0, Resources::kMaxNodes - 1)));
}

Result<std::vector<NodeShare>> distribute(const Jobspec& spec, const Resources& resources,
                                          const std::optional<PerResource>& per_resource, bool oversubscribe) {
  std::vector<std::uint32_t> slots = TRY(place_slots(spec, resources, oversubscribe));
  std::vector<NodeShare> shares = place_tasks(spec, slots);
  if (per_resource) CHECK_OK(set_tasks(*per_resource, resources, shares));
  return shares;
}

std::string sharing_text(const Jobspec& spec, const Resources& resources, const std::vector<NodeShare>& shares) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const NodeResources& node = resources.nodes[i];
    bool fits = std::uint64_t{shares[i].slots} * spec.cores_per_slot <= node.cores.size();
    if (fits || shares[i].tasks == 0) continue;
    return fmt::format("{} share {}{}", counted(shares[i].tasks, "task"), counted(node.cores.size(), "core"),
                       node.on());
  }
  return "";
}

}  // namespace nacre::job
