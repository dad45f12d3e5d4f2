// SPDX-License-Identifier: Apache-2.0
#include "control/streams.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace nacre::control {
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
