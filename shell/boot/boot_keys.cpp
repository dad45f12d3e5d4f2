// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "boot/identity.hpp"
#include "boot/keys.hpp"
#include "boot/ways.hpp"
#include "group/first_words.hpp"
#include "launch/own_sockets.hpp"

namespace nacre::boot {
namespace {

using group::Membership;
using group::Rank;

constexpr const char* kShellKey = "nacre.shell";
constexpr const char* kJobKey = "nacre.job";

// The manager's, if it gives one.
value::JobId job_id(const BootRequest& request) {
  if (request.id) return *request.id;
  if (auto text = request.variables("FLUX_JOB_ID")) {
    if (auto id = value::JobId::parse(*text)) return *id;
  }
  return new_job_id();
}

Result<void> announce_job(Keys& keys, const BootRequest& request) {
  auto secret = TRY(transport::Secret::generate());
  Json job{{"version", request.version},
           {"protocol", group::kProtocol},
           {"jobid", job_id(request).f58_plain()},
           {"arity", request.arity},
           {"secret", secret.hex()}};
  std::string text = dump_json(job);
  transport::wipe(job["secret"].get_ref<std::string&>());
  Result<void> put = keys.put(kJobKey, text);
  transport::wipe(text);
  return put;
}

Result<Membership> read_job(const std::string& text, const Keys& keys, const std::string& version) {
  Json json = TRY(parse_json(text));
  JsonAt job = JsonAt::root(json);
  auto protocol = TRY(TRY(job.at("protocol")).integer(0, UINT32_MAX));
  if (protocol != group::kProtocol) {
    return invalid(
        fmt::format("shell 0 is of nacre {} and speaks protocol {}, this shell is of {} and speaks {}: the same "
                    "version has to be installed on all hosts",
                    in_quotes(TRY(TRY(job.at("version")).string())), protocol, version, group::kProtocol));
  }
  auto id = TRY(value::JobId::parse(TRY(TRY(job.at("jobid")).string())));
  auto arity = static_cast<std::uint32_t>(TRY(TRY(job.at("arity")).integer(2, launch::LaunchRecord::kMaxArity)));
  std::string hex = TRY(TRY(job.at("secret")).string());
  auto secret = transport::Secret::from_hex(hex);
  transport::wipe(hex);
  transport::wipe(json["secret"].get_ref<std::string&>());
  transport::Secret known = TRY(std::move(secret));  // before the braces: see group/statements.cpp
  return Membership{version, id, keys.rank(), keys.size(), arity, std::move(known), {}, {}, {}, {}};
}

Result<Membership> exchange(Keys& keys, const BootRequest& request) {
  launch::OwnSockets own = TRY(launch::bind_own_sockets(temporary_directory(request.variables)));
  CHECK_OK(keys.put(kShellKey, own.address));
  if (keys.rank() == 0) CHECK_OK(announce_job(keys, request));
  CHECK_OK(keys.barrier());
  std::string text = TRY(keys.get(0, kJobKey));
  Result<Membership> read = in("the key of shell 0", read_job(text, keys, request.version));
  transport::wipe(text);
  Membership out = TRY(std::move(read));
  std::string mark = transport::host_mark();
  for (Rank each : ancestors_of(out.rank, out.arity)) {
    std::string addresses = TRY(keys.get(each, kShellKey));
    CHECK_OK(out.directory.set(each, transport::usable_on(mark, addresses)));
  }
  own.move_to(out);
  return out;
}

}  // namespace

Result<Boot> boot_by_keys(const BootRequest& request, Keys& keys, Way way, const char* seen) {
  Boot out;
  out.way = way;
  out.how = fmt::format("{}: {}: shell {} of {}", way_name(way), seen, keys.rank(), keys.size());
  out.id = job_id(request);
  if (keys.size() > 1) {
    out.membership = TRY(in(fmt::format("--boot={}", way_name(way)), exchange(keys, request)));
    out.id = out.membership->job;
  }
  CHECK_OK(keys.finish());
  return out;
}

}  // namespace nacre::boot
