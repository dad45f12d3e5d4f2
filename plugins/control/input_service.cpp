// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/input_service.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kInputStream = "stdin";

Error has_owner(const std::string& who) {
  return Error{EBUSY, fmt::format("the job's standard input is that of {}: --input=take takes it", who)};
}

}  // namespace

Result<plugin::LaunchedInput*> InputService::find(bool takes) const {
  if (host_.options().find("input.stdin.path") != nullptr)
    return Error{ENOTSUP, "the job's tasks read a file (input.stdin.path), and no standard input"};
  if (!host_.has_input())
    return Error{ENOTSUP,
                 "the job was started without standard input: nothing can be typed there; give nacre run one, or "
                 "with --detach -o input.when-left=open"};
  plugin::LaunchedInput* input = host_.launched() != nullptr ? host_.launched()->input() : nullptr;
  if (input == nullptr)
    return Error{ENOTSUP,
                 "the job's tasks read the standard input with which shell 0 was started, by a manager or by nacre "
                 "run on this host without a terminal: nobody else can have it"};
  if (input->has_ended()) return Error{EPIPE, "the job's standard input has ended"};
  if (!takes && owner_) return has_owner(owner_->name);
  if (!takes && input->is_launchers()) return has_owner("the process that has started the job");
  return input;
}

void InputService::serve(ClientId client, const control::ControlRequest& request) {
  Result<void> begun = begin(client, request);
  if (!begun) server_()->answer(client, request.id, begun.error());
}

Result<void> InputService::begin(ClientId client, const control::ControlRequest& request) {
  JsonAt at = JsonAt::root(request.arguments);
  bool takes = false;
  if (auto take = TRY(at.find("take"))) takes = TRY(take->boolean());
  Owner next{client, request.id, "a front end", 0};
  if (auto name = TRY(at.find("name"))) next.name = escape_controls(TRY(name->string()).substr(0, kMostOwnerName));
  plugin::LaunchedInput* input = TRY(find(takes));
  bool was_launchers = input->is_launchers();
  if (owner_) notify_former(next.name);
  if (was_launchers)
    host_.log().log(Level::warn, "control",
                    "the job's standard input is that of {} from now on: what is typed here goes nowhere",
                    next.name);
  owner_ = std::move(next);
  input->own([this] { grant(); });
  server_()->answer_part(client, request.id, Json::object());
  owner_->uncredited = kInputCredit;
  grant();
  return {};
}

void InputService::notify_former(const std::string& by) {
  if (auto* server = server_()) server->answer(owner_->client, owner_->id, Json{{"taken", by}});
}

// There is room: what has come is on its way to the tasks.
void InputService::grant() {
  auto* server = server_();
  if (!owner_ || server == nullptr || owner_->uncredited == 0) return;
  server->grant(owner_->client, owner_->id, std::exchange(owner_->uncredited, 0));
}

void InputService::data(ClientId client, const control::StreamData& data) {
  if (!is_owner(client, data.id) || data.stream != kInputStream) return;
  owner_->uncredited += std::max<std::size_t>(data.data.size(), 1);
  if (host_.launched()->input()->write(data.data)) grant();
}

void InputService::end(ClientId client, const control::StreamEnd& end) {
  if (!is_owner(client, end.id) || end.stream != kInputStream) return;
  owner_.reset();
  host_.launched()->input()->end();
  if (auto* server = server_()) server->answer(client, end.id, Json{{"ended", true}});
}

void InputService::gone(ClientId client) {
  if (!owner_ || owner_->client != client) return;
  owner_.reset();
  host_.launched()->input()->leave();
}

}  // namespace nacre::plugins
