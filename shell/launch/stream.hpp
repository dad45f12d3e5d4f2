// SPDX-License-Identifier: Apache-2.0
//
// What a launcher sends the leader's shell after the launch record, on the shell's standard input: records of
// transport/wire.hpp.
//
//   frame          {"signal": N}: for all tasks of the job
//                  {"detach": true}: the launcher wants to leave, and the job goes on without it
//                  {"agreed": SHELLS}: the job may go on without these, as the leader has asked (an idset)
//                  {"end": N}: the launcher ends the job, because of signal N; it is the last record
//   bulk, stream 0 the launcher's own standard input
//   end, stream 0  its end
//
// If the stream ends, the launcher has gone. It has to stay open until the job is over.
#pragma once

#include "event/loop.hpp"
#include "task/stream.hpp"
#include "transport/wire.hpp"
#include "value/idset.hpp"

namespace nacre::launch {

// Reads standard input of a front end for a job: as fast as it is taken, without changing its flags for other
// processes that share it, and not while it is a terminal that another process group has.
class InputReader : Noncopyable {
 public:
  // Called from the loop; none may destroy the reader.
  struct Callbacks {
    std::function<std::size_t()> room;               // bytes that may be read now; 0: it pauses until go_on()
    std::function<void(std::string_view)> on_bytes;  // at most what there was room for
    std::function<void()> on_end;                    // once, unless stop() is called before
  };

  // The caller keeps `input` open. It does not keep the loop running. EBADF: it is not open.
  static Result<std::unique_ptr<InputReader>> create(event::Loop& loop, int input, Callbacks callbacks);
  ~InputReader() { stop(); }

  void go_on();  // there is room again
  void stop();   // nothing more is read, and the descriptor is as before

 private:
  explicit InputReader(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}
  Result<void> open(event::Loop& loop, int input);
  void pump();
  bool read_once(std::size_t room);
  void await();
  void pause();

  Callbacks callbacks_;
  int input_ = -1;        // < 0: it has ended
  UniqueFd own_;          // a separate description of the input, if there can be one
  int flags_ = -1;        // of the shared description otherwise; restored at the end
  bool is_file_ = false;  // always readable
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;  // for a file, and for a terminal that is another process group's
};

// The last of a front end's standard input that it has sent: where the leader is lost, the next one may need some
// of it once more.
class InputTail {
 public:
  static constexpr std::size_t kMost = std::size_t{16} << 20;  // bytes: more than may be between here and the tasks

  void add(std::string_view bytes);
  void end() { has_ended_ = true; }

  // Places in all that was sent: of the first byte that is here, and behind the last one.
  [[nodiscard]] std::uint64_t first() const { return end_ - bytes_.size(); }
  [[nodiscard]] std::uint64_t behind() const { return end_; }
  [[nodiscard]] bool has_ended() const { return has_ended_; }  // the input's end was sent
  // What is here from this byte on, at most so much. `at`: from first() to behind().
  [[nodiscard]] std::string_view piece(std::uint64_t at, std::size_t most) const;

 private:
  std::string bytes_;
  std::uint64_t end_ = 0;
  bool has_ended_ = false;
};

inline constexpr std::uint32_t kInputStream = 0;

// The end of the leader, or of a shell that only has to notice when the process that started it goes.
class LaunchStream : Noncopyable {
 public:
  static constexpr std::size_t kMaxFrame = 4096;                 // bytes
  static constexpr std::size_t kMaxHeld = std::size_t{4} << 20;  // bytes of input that are not wanted yet

  // Called from the loop; none may destroy the stream. Any may be unset.
  struct Callbacks {
    std::function<void(int signum)> on_signal;
    std::function<void(int signum)> on_end;  // the launcher ends the job; on_gone follows
    std::function<void(std::string_view)> on_input;
    std::function<void()> on_input_end;  // once
    std::function<void(const Error&)>
        on_gone;                           // the last callback: the launcher has gone, or has broken the protocol
    std::function<void()> on_detach = {};  // the launcher wants to leave; let_go() may be called
    std::function<void(const value::Idset& shells)> on_agreed = {};  // the job may go on without these
  };

  // `behind`: bytes that were read already.
  static Result<std::unique_ptr<LaunchStream>> create(event::Loop& loop, UniqueFd fd, std::string behind,
                                                      Callbacks callbacks);
  // Drops all that comes: for a shell that is not the leader, until it has joined.
  static Result<std::unique_ptr<LaunchStream>> watch(event::Loop& loop, UniqueFd fd, std::function<void()> on_gone);

  // While input is not wanted up to kMaxHeld of it is held. If more comes, signals behind it wait too, but the end
  // of the launcher is still noticed.
  void want_input(bool wanted);
  // Input that has come and was not given to on_input yet.
  struct Held {
    std::string bytes;
    bool ended = false;  // its end has come; on_input_end is not called
  };
  Held take_held();
  [[nodiscard]] bool has_hung_up() const;  // the launcher has gone, whether on_gone was called or not
  // The job goes on without its launcher, which sees that its stream is closed. No callback follows.
  void let_go();

 private:
  LaunchStream(UniqueFd fd, Callbacks callbacks) : fd_(std::move(fd)), callbacks_(std::move(callbacks)) {}
  void start();
  void on_readable();
  void on_timer();
  void take(std::string_view bytes);
  Result<void> take_record(const transport::LinkRecord& record);
  void give();
  [[nodiscard]] std::size_t held() const { return held_.size() - given_; }
  void gone(const Error& why);
  void watch_again();

  UniqueFd fd_;
  Callbacks callbacks_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  transport::LinkRecordReader reader_{kMaxFrame};
  bool discards_ = false;
  bool wanted_ = true;
  std::string held_;
  std::size_t given_ = 0;     // bytes of held_ that were given
  bool input_ended_ = false;  // the record has come
  bool end_given_ = false;
  bool gone_ = false;
};

// The launcher's end: reads its own standard input as fast as the other end takes it.
class LaunchFeed : Noncopyable {
 public:
  // `to`: the standard input of the leader's agent. It has to outlive this object; its owner calls on_room().
  // `input`: a descriptor; kNoInput: there is none, as if it had ended; kOpenInput: nothing comes, and no end.
  // `tail` gets what is sent of it; null: nobody needs it.
  static constexpr int kNoInput = -1;
  static constexpr int kOpenInput = -2;
  static Result<std::unique_ptr<LaunchFeed>> create(event::Loop& loop, task::BufferedStream& to, int input,
                                                    InputTail* tail = nullptr);

  void signal(int signum);
  void detach();
  void agree(const value::Idset& shells);
  void end(int signum);  // of the job, because of that signal; the stream has to be closed then
  void on_room();

 private:
  LaunchFeed(task::BufferedStream& to, InputTail* tail) : to_(to), tail_(tail) {}
  void send(std::string_view what, int signum);
  void send_frame(const std::string& body);
  void send_input(std::string_view bytes);
  void end_input();
  void send_end();
  [[nodiscard]] std::size_t unsent() const;  // bytes

  task::BufferedStream& to_;
  InputTail* tail_;
  std::unique_ptr<InputReader> input_;
};

}  // namespace nacre::launch
