// SPDX-License-Identifier: Apache-2.0
//
// <flux/hosts.h> and <flux/version.h>.
#include <flux/hosts.h>
#include <flux/version.h>

#include <cstring>

#include <fmt/format.h>

#include "flux/handle.hpp"
#include "value/hostlist.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

const value::Hostlist& hosts_of(flux_t* h) { return flux_shell_get_hostlist(&h->runtime.shell())->names; }

Result<std::string> hosts_of_ranks(const value::Hostlist& hosts, const value::Idset& ranks) {
  value::Hostlist out;
  for (value::Idset::Id rank : ranks.ids()) {
    auto host = hosts.nth(rank);
    if (!host) return Error{ENOENT, fmt::format("there is no shell {}: the job has {}", rank, hosts.size())};
    out.append(*host);
  }
  return out.str();
}

Result<std::string> ranks_of_hosts(const value::Hostlist& hosts, const value::Hostlist& wanted) {
  value::Idset out;
  for (std::uint64_t i = 0; i < wanted.size(); ++i) {
    std::string host = *wanted.nth(i);
    auto rank = hosts.find(host);
    if (!rank) return Error{ENOENT, fmt::format("no shell of the job is on {}", host)};
    out.insert(static_cast<value::Idset::Id>(*rank));
  }
  return out.str();
}

Result<std::string> lookup(flux_t* h, const char* targets) {
  if (h == nullptr || targets == nullptr) return invalid("expected a handle and ranks or hosts");
  if (Result<value::Idset> ranks = value::Idset::parse(targets)) return hosts_of_ranks(hosts_of(h), *ranks);
  if (Result<value::Hostlist> wanted = value::Hostlist::parse(targets)) return ranks_of_hosts(hosts_of(h), *wanted);
  return invalid(fmt::format("expected ranks (RFC 22) or hosts (RFC 29), got '{}'", targets));
}

}  // namespace

const char* flux_get_hostbyrank(flux_t* h, uint32_t rank) noexcept {
  if (rank == FLUX_NODEID_ANY) return "any";
  if (rank == FLUX_NODEID_UPSTREAM) return "upstream";
  std::optional<std::string> host;
  if (h != nullptr) host = hosts_of(h).nth(rank);
  if (!host) return "(null)";
  return h->attributes.insert_or_assign("host of a rank", std::move(*host)).first->second.c_str();
}

int flux_get_rankbyhost(flux_t* h, const char* host) noexcept {
  if (h == nullptr || host == nullptr) return fail(EINVAL);
  auto rank = hosts_of(h).find(host);
  return rank ? static_cast<int>(*rank) : fail(ENOENT);
}

char* flux_hostmap_lookup(flux_t* h, const char* targets, flux_error_t* errp) noexcept {
  Result<std::string> found = lookup(h, targets);
  if (found) return c_string(*found);
  if (errp != nullptr) std::snprintf(errp->text, sizeof errp->text, "%s", found.error().message.c_str());
  return none(found.error().code);
}

const char* flux_core_version_string(void) noexcept { return FLUX_CORE_VERSION_STRING; }

int flux_core_version(int* major, int* minor, int* patch) noexcept {
  if (major != nullptr) *major = FLUX_CORE_VERSION_MAJOR;
  if (minor != nullptr) *minor = FLUX_CORE_VERSION_MINOR;
  if (patch != nullptr) *patch = FLUX_CORE_VERSION_PATCH;
  return FLUX_CORE_VERSION_HEX;
}
