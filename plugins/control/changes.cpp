// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/changes.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "job/options.hpp"

namespace nacre::plugins {

// ---- restart service --------------------------------------------------------------------

namespace {

constexpr std::string_view kOrdered = "shell.restart-order";    // doc/protocol.md
constexpr std::string_view kRefused = "shell.restart-refused";  // likewise

void refuse(Json& refused, const value::Idset& ranks, const std::string& why) {
  if (!ranks.empty()) refused.push_back({{"ranks", ranks.str()}, {"why", why}});
}

}  // namespace

Result<RestartService::Open> RestartService::read(const Json& arguments, const value::Idset& running) const {
  if (!TRY(job::RestartOption::read(host_.options())).is_on())
    return Error{ENOTSUP,
                 "the job was started without --restart: --restart=on-request lets its tasks be started again"};
  if (host_.ending() || running.empty()) return Error{ECANCELED, "the job is ending"};
  auto ranks = TRY(JsonAt::root(arguments).find("ranks"));
  if (!ranks) return Open{{}, running};
  auto wanted = TRY(value::Idset::parse(TRY(ranks->string())));
  if (wanted.empty()) return ranks->expected("at least one rank");
  auto last = static_cast<value::Idset::Id>(host_.job().tasks() - 1);
  if (value::Idset beyond = wanted - value::Idset::range(0, last); !beyond.empty())
    return Error{EINVAL, fmt::format("there is no rank {}: the job has rank{}", beyond.str(),
                                     last == 0 ? " 0" : fmt::format("s 0-{}", last))};
  Open out{{}, wanted & running};
  refuse(out.refused, wanted - running, "it has ended");
  return out;
}

void RestartService::serve(const Json& arguments, const Answers::Reply& reply, const value::Idset& running) {
  auto open = read(arguments, running);
  if (!open) return reply.answer(open.error());
  open->reply = reply;
  Json order = Json::object();
  if (arguments.contains("ranks")) order["ranks"] = open->waiting.str();
  const bool is_needed = !open->waiting.empty();
  open_.push_back(*std::move(open));
  if (!announced_.active())
    announced_ =
        host_.on_announcement([this](std::string_view topic, std::string_view bytes) { announced(topic, bytes); });
  if (is_needed) {
    if (Result<void> sent = host_.announce(kOrdered, dump_json(order)); !sent) {
      open_.pop_back();
      return reply.answer(sent.error());
    }
  }
  answer_complete();
}

void RestartService::announced(std::string_view topic, std::string_view bytes) {
  if (topic != kRefused) return;
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  auto ranks = value::Idset::parse(json->value("ranks", ""));
  if (ranks) refused(*ranks, json->value("why", ""));
}

void RestartService::started(const Json& what) {
  auto ranks = value::Idset::parse(what.value("ranks", ""));
  if (!ranks) return;
  for (Open& each : open_) {
    each.started.insert(each.waiting & *ranks);
    each.waiting = each.waiting - *ranks;
  }
  answer_complete();
}

void RestartService::refused(const value::Idset& ranks, const std::string& why) {
  for (Open& each : open_) {
    refuse(each.refused, each.waiting & ranks, why);
    each.waiting = each.waiting - ranks;
  }
  answer_complete();
}

void RestartService::answer_complete() {
  for (auto each = open_.begin(); each != open_.end();) {
    auto next = std::next(each);
    if (each->waiting.empty()) {
      Open done = std::move(*each);
      open_.erase(each);
      done.reply.answer(Json{{"ranks", done.started.str()}, {"refused", std::move(done.refused)}});
    }
    each = next;
  }
}

void RestartService::job_ended() {
  for (Open& each : std::exchange(open_, {})) each.reply.answer(Error{ECANCELED, "the job has ended meanwhile"});
}

// ---- shrink service ---------------------------------------------------------------------

void ShrinkService::serve(const Json& arguments, const Answers::Reply& reply) {
  auto order = value::ShrinkOrder::parse(JsonAt::root(arguments), value::ShrinkOrder::Unknown::ignore);
  if (!order) return reply.answer(order.error());
  std::erase_if(open_, [](const plugin::Registration& each) { return !each.active(); });
  open_.push_back(host_.shrink(*order, [reply](const Result<Json>& news, bool is_last) {
    if (is_last) return reply.answer(news);
    if (news) reply.part(*news);
  }));
}

}  // namespace nacre::plugins
