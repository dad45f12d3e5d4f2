// SPDX-License-Identifier: Apache-2.0
#include "core/shrink_asks.hpp"

#include <utility>

#include "base/json.hpp"

namespace nacre::core {

void ShrinkAsks::serve(Serve order) {
  serve_ = std::move(order);
  if (!shells_.may_have_others()) return;
  announced_ =
      host_.on_announcement([this](std::string_view topic, std::string_view bytes) { announced(topic, bytes); });
}

plugin::Registration ShrinkAsks::ask(const value::ShrinkOrder& order, WhenShrunk news) {
  Number number = ++last_;
  plugin::Registration out = open_[number].add(std::move(news));
  Result<void> sent = over_ ? Result<void>(*over_) : send(number, order);
  if (!sent) pass_on(number, sent.error(), true);
  return out;
}

Result<void> ShrinkAsks::send(Number number, const value::ShrinkOrder& order) {
  if (!shells_.leads()) {
    Json ask{{"shell", host_.job().shell_rank}, {"number", number}, {"order", order.json()}};
    return host_.announce(kAskTopic, dump_json(ask));
  }
  serve_(order, [this, number](const Result<Json>& news, bool is_last) { pass_on(number, news, is_last); });
  return {};
}

void ShrinkAsks::end(const Error& why) {
  over_ = why;
  while (!open_.empty()) pass_on(open_.begin()->first, why, true);
}

void ShrinkAsks::pass_on(Number number, const Result<Json>& news, bool is_last) {
  auto found = open_.find(number);
  if (found == open_.end()) return;
  if (!is_last) return found->second.call(news, false);
  auto taken = open_.extract(found);
  taken.mapped().call(news, true);
}

void ShrinkAsks::announced(std::string_view topic, std::string_view bytes) {
  bool is_ask = topic == kAskTopic && shells_.leads();
  if (!is_ask && topic != kAnswerTopic) return;
  Json what = Json::parse(bytes, nullptr, false);
  if (!what.is_object()) return;
  is_ask ? asked(what) : answered(what);
}

void ShrinkAsks::asked(const Json& ask) {
  auto answer = [this, shell = ask.value("shell", 0U), number = ask.value("number", Number{0})](
                    const Result<Json>& news, bool is_last) {
    if (!is_last) return;
    Json out{{"shell", shell}, {"number", number}};
    if (news) {
      out["ok"] = *news;
    } else {
      out["error"] = {{"code", news.error().code}, {"message", news.error().message}};
    }
    if (Result<void> sent = host_.announce(kAnswerTopic, dump_json(out)); !sent)
      host_.log().log(Level::debug, "", "shrink: the answer to shell {}: {}", shell, sent.error().message);
  };
  Json arguments = ask.value("order", Json::object());
  auto order = value::ShrinkOrder::parse(JsonAt::root(arguments), value::ShrinkOrder::Unknown::ignore);
  if (!order) return answer(order.error(), true);
  serve_(*order, answer);
}

void ShrinkAsks::answered(const Json& answer) {
  if (answer.value("shell", 0U) != host_.job().shell_rank || shells_.leads()) return;
  Number number = answer.value("number", Number{0});
  if (auto error = answer.find("error"); error != answer.end() && error->is_object())
    return pass_on(number, Error{error->value("code", EPROTO), error->value("message", "")}, true);
  pass_on(number, answer.value("ok", Json::object()), true);
}

}  // namespace nacre::core
