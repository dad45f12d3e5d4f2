// SPDX-License-Identifier: Apache-2.0
#include "plugins/instance/proctable.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kProctable = "proctable";

// The lists of the answer.
Json lists_of(Json rows) {
  std::sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) { return a[0] < b[0]; });
  Json out{{"hosts", Json::array()},
           {"executables", Json::array()},
           {"ids", Json::array()},
           {"pids", Json::array()},
           {"ranks", Json::array()}};
  std::int64_t id = 0, pid = 0, rank = 0;
  auto add = [&](const char* list, std::int64_t& last, const Json& value) {
    const auto now = value.get<std::int64_t>();
    out[list].push_back(now - std::exchange(last, now));
  };
  for (const Json& row : rows) {
    add("ids", id, row[0]);
    add("pids", pid, row[1]);
    out["executables"].push_back(row[2]);
    out["hosts"].push_back(row[3]);
    add("ranks", rank, row[4]);
  }
  return out;
}

}  // namespace

struct Proctable::Gathering {
  Request request;
  Json rows;
  std::size_t missing = 0;  // shells that have not answered
  std::string failure;
};

Proctable::Proctable(plugin::Host& host, broker::Instance& instance) : host_(host), instance_(instance) {
  instance.methods[kProctable] = [this](const Request& request) { take(request); };
}

Proctable::~Proctable() {
  instance_.methods.erase(kProctable);
  for (std::uint32_t tag : calls_) instance_.broker->forget(tag);
}

// [rank, pid, executable, host, broker], each.
Json Proctable::own_rows() const {
  Json rows = Json::array();
  for (const auto& task : host_.tasks()) {
    const auto& argv = task->command().argv;
    rows.push_back(
        {task->rank(), task->pid(), argv.empty() ? "" : argv[0], host_.job().node().hostname, instance_.rank});
  }
  return rows;
}

void Proctable::take(const Request& request) {
  if (request.userid != ::getuid())
    return instance_.broker->respond_error(request, EPERM, "this is another user's job");
  auto asked = parse_json(request.text());
  if (asked && asked->is_object() && asked->contains("rows"))
    return instance_.broker->respond(request, {{"rows", own_rows()}});
  if (host_.job().leads()) return gather(request);
  instance_.broker->respond(request, lists_of(own_rows()));
}

void Proctable::gather(const Request& request) {
  auto all = std::make_shared<Gathering>(Gathering{request, own_rows(), 1, ""});
  auto done = [this, all] {
    if (--all->missing > 0) return;
    if (!all->failure.empty()) return instance_.broker->respond_error(all->request, ECANCELED, all->failure);
    instance_.broker->respond(all->request, lists_of(std::move(all->rows)));
  };
  const auto& nodes = host_.job().resources.nodes;
  all->missing += nodes.size() - 1;
  for (std::size_t shell = 1; shell < nodes.size(); ++shell) {
    auto take = [all, done, shell](const Result<Json>& answer) {
      if (!answer) all->failure = fmt::format("shell {}: {}", shell, answer.error().message);
      if (answer) {
        for (const Json& row : member_of(*answer, "rows")) all->rows.push_back(row);
      }
      done();
    };
    calls_.push_back(instance_.broker->call(fmt::format("{}.{}", instance_.service, kProctable), {{"rows", true}},
                                            take, nodes[shell].broker_rank));
  }
  done();
}

}  // namespace nacre::plugins
