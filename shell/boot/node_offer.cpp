// SPDX-License-Identifier: Apache-2.0
#include "boot/node_offer.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "job/resources.hpp"
#include "launch/own_sockets.hpp"
#include "task/gpus.hpp"
#include "value/hostlist.hpp"

namespace nacre::boot {
namespace {

using value::Idset;

// The order in which hwloc would number the cores does not follow from the kernel's files. A shell that may use all
// of them offers 0, 1, ...; one that is confined to some of them offers 0 to one less than their number.
Result<Idset> cores_by_number(const task::CpuRights& rights, const std::string& system) {
  std::uint32_t count = 0;
  Idset seen;
  for (Idset::Id cpu : rights.allowed.ids()) {
    if (seen.contains(cpu)) continue;
    auto text = read_file(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", system, cpu));
    if (auto siblings = text ? Idset::parse(trim(*text)) : Result<Idset>(invalid("")); siblings)
      seen = seen | *siblings;
    ++count;
  }
  if (count == 0) return invalid("this process may use no cpu");
  return Idset::range(0, count - 1);
}

Result<Idset> own_cores(const std::string& system) {
  task::CpuRights rights = TRY(task::read_cpu_rights(system));
  auto cores = TRY(task::read_cores(rights.online, system));
  if (!cores) return cores_by_number(rights, system);
  Idset out;
  std::vector<Idset> known = task::cores_within(*cores, rights.cgroup);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!(known[i] & rights.allowed).empty()) out.insert(static_cast<Idset::Id>(i));
  }
  if (out.empty()) return invalid("this process may use no cpu");
  return out;
}

Result<Idset> ids_at(const JsonAt& root, const char* key) {
  JsonAt at = TRY(root.at(key));
  Idset ids = TRY(in(at.path(), Idset::parse(TRY(at.string()))));
  if (auto last = ids.last(); last && *last > job::Resources::kMaxCoreId) {
    return at.error(fmt::format("id {}; the largest may be {}", *last, job::Resources::kMaxCoreId));
  }
  return ids;
}

Result<NodeOffer> read_offer(const JsonAt& root) {
  CHECK_OK(root.only_keys({"hostname", "cores", "gpus"}));
  NodeOffer out;
  JsonAt name = TRY(root.at("hostname"));
  out.hostname = TRY(name.string());
  auto list = value::Hostlist::parse(out.hostname);
  if (!list || list->size() != 1 || list->nth(0) != out.hostname) return name.expected("the name of a host");
  out.cores = TRY(ids_at(root, "cores"));
  if (out.cores.empty()) return TRY(root.at("cores")).error("expected at least one core");
  out.gpus = TRY(ids_at(root, "gpus"));
  return out;
}

}  // namespace

std::string NodeOffer::text() const {
  return dump_json(Json{{"hostname", hostname}, {"cores", cores.str()}, {"gpus", gpus.str()}});
}

Result<NodeOffer> NodeOffer::parse(std::string_view text) {
  Json json = TRY(in("what a shell offers", parse_json(text)));
  return in("what a shell offers", read_offer(JsonAt::root(json)));
}

Result<NodeOffer> own_offer(const Variables& variables, const std::string& system) {
  NodeOffer out;
  out.hostname = launch::own_host_name();
  if (out.hostname.empty()) out.hostname = "localhost";
  out.cores = TRY(own_cores(system));
  out.gpus = task::find_gpus(variables).ids;
  return out;
}

}  // namespace nacre::boot
