// SPDX-License-Identifier: Apache-2.0
#include "plugins/usage/uplink.hpp"

#include <iterator>
#include <utility>

#include "bulk/options.hpp"

namespace nacre::plugins {

void UsageUplink::serve(std::function<void(bulk::Id shell, std::string_view bytes)> take) {
  if (bulk::Port* port = host_.bulk()) records_.serve(*port, std::move(take));
}

void UsageUplink::add(usage::TaskRow row) {
  if (only_totals_) {
    if (!next_.totals) next_.totals.emplace();
    return next_.totals->add(row);
  }
  next_.rows.push_back(std::move(row));
  if (own_ || next_.rows.size() >= usage::UsageBatch::kMostRows) return flush();
  if (next_.rows.size() > 1) return;
  if (!timer_) {
    auto timer = event::Timer::create(host_.loop(), [this] { flush(); });
    if (!timer) return flush();
    timer_ = *std::move(timer);
    timer_->unref();
  }
  timer_->start(kMostDelay);
}

void UsageUplink::flush() {
  if (timer_) timer_->stop();
  usage::UsageBatch batch = std::exchange(next_, {});
  if (own_) return own_(batch);
  if (records_.waiting() >= kMostUnsent && !batch.node) {
    dropped_ += batch.rows.size();
    return;
  }
  put(std::move(batch));
}

// Commands may be long: what is too large for a record goes as two.
void UsageUplink::put(usage::UsageBatch batch) {
  std::string text = batch.text();
  if (text.size() <= bulk::kMaxRecord || batch.rows.size() < 2) return records_.put(std::move(text));
  usage::UsageBatch first;
  auto half = batch.rows.begin() + static_cast<std::ptrdiff_t>(batch.rows.size() / 2);
  first.rows.assign(std::make_move_iterator(batch.rows.begin()), std::make_move_iterator(half));
  batch.rows.erase(batch.rows.begin(), half);
  put(std::move(first));
  put(std::move(batch));
}

void UsageUplink::finish(const usage::NodeRow& node) {
  next_.node = node;
  flush();
}

}  // namespace nacre::plugins
