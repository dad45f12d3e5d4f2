// SPDX-License-Identifier: Apache-2.0
//
// Which handler of a plugin, or which initrc, this process runs now. It is kept in a page that forked processes
// share, so that a signal handler, or a process beside this one, can name a handler that does not return. A signal
// handler has no argument of its own, so the page is a static variable of current_call.cpp.
#pragma once

#include <atomic>

#include "base/usual.hpp"

namespace nacre {

class CallPage {
 public:
  static constexpr std::size_t kPluginSize = 64;  // bytes with the NUL; a longer name is cut
  static constexpr std::size_t kTopicSize = 192;  // as kPluginSize
  static constexpr std::size_t kHostSize = 64;    // as kPluginSize

  // Where the process is. Two places are equal if no call has begun or returned between them, and the loop has not
  // turned.
  struct Place {
    std::uint64_t calls = 0;
    std::uint64_t turns = 0;

    [[nodiscard]] bool within_call() const { return calls % 2 == 1; }
    bool operator==(const Place&) const = default;
  };

  // The page of this process. Safe in a signal handler, once it has been called outside of one.
  static CallPage& own();

  [[nodiscard]] Place place() const { return {calls_.load(), turns_.load()}; }
  // When the outermost call began, or when the loop last turned within it, by CLOCK_MONOTONIC in milliseconds.
  [[nodiscard]] std::int64_t moved_at() const { return moved_at_.load(); }
  [[nodiscard]] static std::int64_t clock();
  // The plugin of the innermost call; if none runs, of the last one.
  [[nodiscard]] std::string_view plugin() const { return text(plugin_, kPluginSize); }
  [[nodiscard]] std::string_view topic() const { return text(topic_, kTopicSize); }

  // The host that messages about a call name; empty: none.
  void set_host(std::string_view host);
  [[nodiscard]] std::string_view host() const { return text(host_, kHostSize); }

  // The loop has handled events, so the call that runs is not stuck.
  void turned() {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (place().within_call()) moved_at_.store(clock(), std::memory_order_relaxed);
  }
  // It was reported that this process ends within a call.
  void set_reported() { reported_.store(true); }
  [[nodiscard]] bool reported() const { return reported_.load(); }

 private:
  friend class CurrentCall;
  static std::string_view text(const char* from, std::size_t size);
  void name(std::string_view plugin, std::string_view topic);

  std::atomic<std::uint64_t> calls_ = 0;  // odd: a call runs. Grows when the outermost begins, and when it returns
  std::atomic<std::uint64_t> turns_ = 0;
  std::atomic<std::int64_t> moved_at_ = 0;
  std::atomic<bool> reported_ = false;
  char plugin_[kPluginSize] = "";
  char topic_[kTopicSize] = "";
  char host_[kHostSize] = "";
};

// While one lives, this handler runs. Calls nest. Both strings must outlive it.
class CurrentCall : Noncopyable {
 public:
  CurrentCall(const std::string& plugin, const std::string& topic);
  ~CurrentCall();
  // `begun` is called whenever a call begins that is not within another one; null: nothing is called. There is one
  // for the process.
  static void when_begun(std::function<void()> begun);

 private:
  [[nodiscard]] bool differs() const;

  const std::string& plugin_;
  const std::string& topic_;
  const CurrentCall* outer_;
};

// The line that a process leaves on stderr before it ends at once. It is made without the heap: for signal
// handlers, and in case the heap is broken.
//
//   nacre-shell[RANK]: TEXT (on HOST)    [RANK] only after set_rank_of_last_lines(), (on HOST) after
//                                        CallPage::set_host()
class LastLine {
 public:
  explicit LastLine(std::string_view program = "nacre-shell");
  // Text that does not fit is left out.
  LastLine& operator<<(std::string_view text);
  LastLine& operator<<(int number);
  // Writes it with one write(2).
  void write();

 private:
  static constexpr std::size_t kSize = 512;  // bytes, with the newline
  char text_[kSize];
  std::size_t size_ = 0;
};

// For the lines of this process, and of those that it forks from now on.
void set_rank_of_last_lines(std::uint32_t shell_rank);

}  // namespace nacre
