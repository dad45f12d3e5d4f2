// SPDX-License-Identifier: Apache-2.0
#include "group/value_carrier.hpp"

#include "base/big_endian.hpp"

namespace nacre::group {
namespace {

constexpr std::size_t kValueHead = 3 * sizeof(std::uint64_t);  // bytes before the piece of the value

}  // namespace

ValueCarrier::ValueCarrier(bulk::Port& port, Arrived arrived) : port_(port), arrived_(std::move(arrived)) {
  bulk::Port::Downward downward;
  downward.on_record = [this](bulk::Numbered number, std::string_view record) {
    if (arrived_) take(record);
    port_.consumed(number);
  };
  downward.on_room = [this] { send_more(); };
  port_.serve(bulk::values::kValue, std::move(downward));
  port_.serve_no_more();
}

void ValueCarrier::publish(overlay::Seq entry, std::string value) {
  outgoing_.push_back({entry, std::move(value), 0});
  if (outgoing_.size() == 1) send_more();
}

// An error: the shell is cut off, and no shell waits for values any more.
void ValueCarrier::send_more() {
  while (!outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    std::string_view piece = std::string_view(first.value).substr(first.at, bulk::kMaxRecord - kValueHead);
    std::string record;
    record.reserve(kValueHead + piece.size());
    append_number(record, first.entry);
    append_number(record, std::uint64_t{first.at});
    append_number(record, std::uint64_t{first.value.size()});
    record += piece;
    Result<bool> sent = port_.broadcast(bulk::values::kValue, record);
    if (!sent) return outgoing_.clear();
    if (!*sent) return;
    first.at += piece.size();
    if (first.at == first.value.size()) outgoing_.pop_front();
  }
}

// Ignores a value whose beginning has not come to this shell.
void ValueCarrier::take(std::string_view record) {
  if (record.size() < kValueHead) return;
  auto entry = take_number<std::uint64_t>(record);
  auto at = take_number<std::uint64_t>(record);
  auto total = take_number<std::uint64_t>(record);
  if (total > overlay::kMaxValue || at > total || (at > 0 && entry != entry_)) return;
  entry_ = entry;
  if (incoming_.add(at, total, record)) arrived_(entry, incoming_.take());
}

}  // namespace nacre::group
