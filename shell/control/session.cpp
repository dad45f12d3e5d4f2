// SPDX-License-Identifier: Apache-2.0
#include "control/session.hpp"

#include <utility>

#include <fmt/format.h>

namespace nacre::control {

Session::Session(std::string version, OnRequest on_request) : on_request_(std::move(on_request)) {
  output_ = line_of(ControlHello{std::move(version)});
}

Result<void> Session::receive(std::string_view bytes) {
  reader_.append(bytes);
  for (;;) {
    auto frame = TRY(reader_.next());
    if (!frame) return {};
    CHECK_OK(take(*frame));
    if (is_full_) return Error{ENOBUFS, fmt::format("{} bytes wait to be taken", kMaxUnsent)};
  }
}

Result<void> Session::take(const Json& frame) {
  if (!std::exchange(greeted_, true)) {
    static_cast<void>(TRY(hello_of(frame)));
    return {};
  }
  ControlRequest request = TRY(request_of(frame));
  if (open_.contains(request.id)) return invalid(fmt::format("request {} is open already", request.id));
  bool is_too_much = open_.size() >= kMaxOpen;
  open_.insert(request.id);
  if (is_too_much) {
    answer(request.id, Error{EBUSY, fmt::format("{} requests of this link have no answer yet: wait for one of them",
                                                kMaxOpen)});
    return {};
  }
  on_request_(request);
  return {};
}

void Session::answer(std::uint64_t id, const Result<Json>& value) {
  if (open_.erase(id) == 0) return;
  Answer out;
  out.id = id;
  if (value)
    out.value = *value;
  else
    out.error = value.error();
  std::string line = line_of(out);
  if (line.size() > kMaxFrame) {
    out.value = nullptr;
    out.error = Error{EMSGSIZE, fmt::format("the answer is longer than {} bytes", kMaxFrame)};
    line = line_of(out);
  }
  put(line);
}

void Session::answer_part(std::uint64_t id, Json value) {
  if (!is_open(id)) return;
  put(line_of(Answer{id, std::move(value), {}, true}));
}

void Session::notify(ControlEvent event) {
  if (!greeted_) return;
  if (output_.size() - sent_ > kMaxEvents) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) event.context["dropped"] = std::exchange(dropped_, 0);
  put(line_of(event));
}

// Its link is ended, so what waits for it is of no use.
void Session::put(std::string_view line) {
  if (is_full_) return;
  output_ += line;
  if (output_.size() - sent_ <= kMaxUnsent) return;
  is_full_ = true;
  output_ = {};
  sent_ = 0;
}

void Session::sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ == output_.size()) {
    output_.clear();
    sent_ = 0;
  } else if (sent_ > output_.size() / 2) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
}

}  // namespace nacre::control
