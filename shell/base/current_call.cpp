// SPDX-License-Identifier: Apache-2.0
#include "base/current_call.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace nacre {
namespace {

const CurrentCall* innermost = nullptr;
std::function<void()> on_begin;

CallPage* make_page() {
  static CallPage not_shared;  // used if there is no memory to share; then no other process can name what runs
  void* page = ::mmap(nullptr, sizeof(CallPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED ? new (page) CallPage : &not_shared;
}

void copy(char* to, std::size_t size, std::string_view text) {
  std::size_t fits = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), fits);
  to[fits] = '\0';
}

}  // namespace

CallPage& CallPage::own() {
  static CallPage* const page = make_page();
  return *page;
}

// The last byte is never written.
std::string_view CallPage::text(const char* from, std::size_t size) { return {from, ::strnlen(from, size - 1)}; }

void CallPage::name(std::string_view plugin, std::string_view topic) {
  copy(plugin_, kPluginSize, plugin);
  copy(topic_, kTopicSize, topic);
}

std::int64_t CallPage::clock() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void CallPage::set_host(std::string_view host) { copy(host_, kHostSize, host); }

CurrentCall::CurrentCall(const std::string& plugin, const std::string& topic)
    : plugin_(plugin), topic_(topic), outer_(innermost) {
  innermost = this;
  if (!differs()) return;
  CallPage& page = CallPage::own();
  page.name(plugin_, topic_);
  // it may be odd already, if a forked process has ended in a call
  std::uint64_t calls = page.calls_.load(std::memory_order_relaxed);
  if (outer_ != nullptr) return;
  page.moved_at_.store(CallPage::clock(), std::memory_order_relaxed);
  page.calls_.store(calls + 1 + calls % 2, std::memory_order_release);
  if (on_begin) on_begin();
}

void CurrentCall::when_begun(std::function<void()> begun) { on_begin = std::move(begun); }

CurrentCall::~CurrentCall() {
  innermost = outer_;
  if (!differs()) return;
  CallPage& page = CallPage::own();
  if (outer_ == nullptr) {
    page.calls_.store(page.calls_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  } else {
    page.name(outer_->plugin_, outer_->topic_);
  }
}

// False if a plugin's own code marks the call that its caller has marked already.
bool CurrentCall::differs() const {
  return outer_ == nullptr || &outer_->plugin_ != &plugin_ || &outer_->topic_ != &topic_;
}

// ---- last line --------------------------------------------------------------------------

namespace {

constexpr std::int64_t kNoRank = -1;
std::atomic<std::int64_t> rank_of_lines = kNoRank;

}  // namespace

LastLine::LastLine(std::string_view program) {
  *this << program;
  if (std::int64_t rank = rank_of_lines.load(); rank != kNoRank) *this << "[" << static_cast<int>(rank) << "]";
  *this << ": ";
}

LastLine& LastLine::operator<<(std::string_view text) {
  std::size_t fits = std::min(text.size(), kSize - 1 - size_);
  std::memcpy(text_ + size_, text.data(), fits);
  size_ += fits;
  return *this;
}

LastLine& LastLine::operator<<(int number) {
  char digits[16];
  auto [end, failed] = std::to_chars(digits, digits + sizeof digits, number);
  return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
}

void LastLine::write() {
  if (std::string_view host = CallPage::own().host(); !host.empty()) *this << " (on " << host << ")";
  text_[size_] = '\n';
  if (::write(STDERR_FILENO, text_, size_ + 1) < 0) return;  // there is no place left to report it
}

void set_rank_of_last_lines(std::uint32_t shell_rank) { rank_of_lines.store(shell_rank); }

}  // namespace nacre
