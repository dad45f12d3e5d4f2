// SPDX-License-Identifier: Apache-2.0
#include "group/keep_alive.hpp"

#include <unistd.h>

#include <utility>

#include "base/last_line.hpp"
#include "base/signals_blocked.hpp"
#include "base/standstill.hpp"

namespace nacre::group {
namespace {

constexpr int kQuietLooks = 5;  // without a call; then the thread waits for the next one

}  // namespace

Result<std::unique_ptr<KeepAlive>> KeepAlive::create(std::chrono::milliseconds interval,
                                                     std::function<std::string(value::Side)> beat) {
  std::unique_ptr<KeepAlive> out(new KeepAlive(interval, std::move(beat)));
  CallPage::own();         // made here, as the thread reads it
  SignalsBlocked blocked;  // signals are for the caller's thread
  pthread_t thread{};
  int code = ::pthread_create(&thread, nullptr, serve, out.get());
  if (code != 0) return system_error(code, "a thread that sends beats");
  out->thread_ = thread;
  CurrentCall::when_begun([raw = out.get()] { raw->begun(); });
  return out;
}

KeepAlive::~KeepAlive() {
  if (!thread_) return;
  CurrentCall::when_begun(nullptr);
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  ::pthread_join(*thread_, nullptr);
}

KeepAlive::Share::Share(KeepAlive& owner, transport::Link& link, value::Side side) : owner_(&owner, Leave{&link}) {
  std::lock_guard lock(owner.mutex_);
  owner.links_[&link] = side;
}

void KeepAlive::remove(transport::Link* link) {
  std::lock_guard lock(mutex_);
  links_.erase(link);
}

void KeepAlive::begun() {
  {
    std::lock_guard lock(mutex_);
    if (!std::exchange(waits_, false)) return;
  }
  changed_.notify_all();
}

void* KeepAlive::serve(void* self) {
  static_cast<KeepAlive*>(self)->run();
  return nullptr;
}

void KeepAlive::run() {
  std::unique_lock lock(mutex_);
  // It begins with looks: the first call, which comes soon, does not have to wake it.
  for (int quiet = 0; !ending_;) {
    if (quiet >= kQuietLooks) {
      waits_ = !CallPage::own().place().within_call();
      changed_.wait(lock, [this] { return !waits_ || ending_; });
      quiet = 0;
    }
    changed_.wait_for(lock, interval_ / 2, [this] { return ending_; });
    quiet = look() ? 0 : quiet + 1;
  }
}

// False: no call runs.
bool KeepAlive::look() {
  const CallPage& page = CallPage::own();
  CallPage::Place place = page.place();
  if (reported_ && place != reported_->place) report_return();
  if (!place.within_call()) return false;
  std::int64_t stuck = CallPage::clock() - page.moved_at();
  // The loop's own last beat may be an interval old. One that waits for a file system that does not answer may wait
  // for ever.
  if (stuck < interval_.count() / 4 || process_state(::getpid()) == 'D') return true;
  for (const auto& [link, side] : links_) link->send_beside(beat_(side));
  if (stuck >= kFirstLine) report(page);
  return true;
}

void KeepAlive::report(const CallPage& page) {
  std::int64_t now = CallPage::clock();
  if (!reported_)
    reported_ = {page.place(), std::string(page.plugin()), std::string(page.topic()), page.moved_at(), now};
  if (now < reported_->next_line) return;
  reported_->next_line = now + kNextLine;
  LastLine line;
  line << "plugin '" << reported_->plugin << "' has been in " << reported_->topic << " for "
       << static_cast<int>((now - reported_->since) / 1000) << " s: the job waits for it";
  line.write();
}

void KeepAlive::report_return() {
  LastLine line;
  line << "plugin '" << reported_->plugin << "' goes on, after "
       << static_cast<int>((CallPage::clock() - reported_->since) / 1000) << " s in " << reported_->topic;
  line.write();
  reported_.reset();
}

}  // namespace nacre::group
