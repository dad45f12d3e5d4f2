// SPDX-License-Identifier: Apache-2.0
#include "control/session.hpp"

namespace nacre::control {

Session::Session(std::string version, Callbacks callbacks) : callbacks_(std::move(callbacks)) {
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
  FromFrontEnd got = TRY(from_front_end(frame));
  if (auto* request = std::get_if<ControlRequest>(&got)) return take_request(*request);
  // What was sent before the request's answer came is passed over.
  if (auto* data = std::get_if<StreamData>(&got)) {
    auto found = open_.find(data->id);
    if (found == open_.end()) return {};
    CHECK_OK(found->second.streams.receive(*data));
    if (callbacks_.on_data) callbacks_.on_data(std::move(*data));
  } else if (auto* end = std::get_if<StreamEnd>(&got)) {
    auto found = open_.find(end->id);
    if (found == open_.end()) return {};
    CHECK_OK(found->second.streams.receive(*end));
    if (callbacks_.on_end) callbacks_.on_end(*end);
  } else {
    const auto& credit = std::get<StreamCredit>(got);
    auto found = open_.find(credit.id);
    if (found == open_.end()) return {};
    found->second.streams.take_credit(credit.bytes);
    offer_room(credit.id);
  }
  return {};
}

Result<void> Session::take_request(const ControlRequest& request) {
  if (open_.contains(request.id)) return invalid(fmt::format("request {} is open already", request.id));
  bool is_too_much = open_.size() >= kMaxOpen;
  open_.emplace(request.id, Open{RequestStreams(request.credit)});
  if (is_too_much) {
    answer(request.id, Error{EBUSY, fmt::format("{} requests of this link have no answer yet: wait for one of them",
                                                kMaxOpen)});
    return {};
  }
  callbacks_.on_request(request);
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
  put_line(line);
}

void Session::answer_part(std::uint64_t id, Json value) {
  if (!is_open(id)) return;
  put_line(line_of(Answer{id, std::move(value), {}, true}));
}

const RequestStreams* Session::streams_of(std::uint64_t id) const {
  auto found = open_.find(id);
  return found == open_.end() ? nullptr : &found->second.streams;
}

std::size_t Session::room(std::uint64_t id) const {
  const RequestStreams* streams = streams_of(id);
  if (streams == nullptr || is_full_ || unsent() >= kMaxUnsentData) return 0;
  return std::min<std::uint64_t>(streams->may_send(), kMaxStreamData);
}

bool Session::put(const StreamData& data) {
  auto found = open_.find(data.id);
  if (found == open_.end()) return true;
  if (room(data.id) < std::max<std::size_t>(data.data.size(), 1)) {
    found->second.wants_room = true;
    return false;
  }
  found->second.streams.send(data.data.size());
  put_line(line_of(data));
  return true;
}

void Session::put_end(const StreamEnd& end) {
  if (is_open(end.id)) put_line(line_of(end));
}

void Session::grant(std::uint64_t id, std::size_t bytes) {
  auto found = open_.find(id);
  if (found == open_.end()) return;
  std::uint64_t more = std::min<std::uint64_t>(bytes, kMaxGranted - found->second.streams.granted());
  if (more == 0) return;
  found->second.streams.grant(more);
  put_line(line_of(StreamCredit{id, more}));
}

void Session::offer_room(std::uint64_t id) {
  auto found = open_.find(id);
  if (found == open_.end() || !found->second.wants_room || room(id) == 0) return;
  found->second.wants_room = false;
  if (callbacks_.on_room) callbacks_.on_room(id);
}

void Session::notify(ControlEvent event) {
  if (!greeted_) return;
  if (unsent() > kMaxEvents) {
    ++dropped_;
    return;
  }
  if (dropped_ > 0) event.context["dropped"] = std::exchange(dropped_, 0);
  put_line(line_of(event));
}

// Its link is ended, so what waits for it is of no use.
void Session::put_line(std::string_view line) {
  if (is_full_) return;
  output_ += line;
  if (unsent() <= kMaxUnsent) return;
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
  std::vector<std::uint64_t> waiting;  // on_room may end requests
  for (const auto& [id, open] : open_) {
    if (open.wants_room) waiting.push_back(id);
  }
  for (std::uint64_t id : waiting) offer_room(id);
}

// ---- streams ----------------------------------------------------------------------------

namespace {

std::uint64_t cost(std::size_t bytes) { return std::max<std::uint64_t>(bytes, 1); }

}  // namespace

void RequestStreams::take_credit(std::uint64_t bytes) { may_send_ = std::min(may_send_ + bytes, kMaxCredit); }

bool RequestStreams::send(std::size_t bytes) {
  if (cost(bytes) > may_send_) return false;
  may_send_ -= cost(bytes);
  return true;
}

Result<void> RequestStreams::receive(const StreamData& data) {
  if (ended_.contains(data.stream)) return Error{EPROTO, fmt::format("{}: data after its end", data.stream)};
  if (cost(data.data.size()) > granted_)
    return Error{EPROTO, fmt::format("{}: data of {} bytes: expected at most {}, the credit that is left",
                                     data.stream, data.data.size(), granted_)};
  granted_ -= cost(data.data.size());
  return {};
}

Result<void> RequestStreams::receive(const StreamEnd& end) {
  if (ended_.size() >= kMaxStreams) return Error{EPROTO, fmt::format("more than {} streams", kMaxStreams)};
  if (!ended_.insert(end.stream).second) return Error{EPROTO, fmt::format("{}: ended twice", end.stream)};
  return {};
}

}  // namespace nacre::control
