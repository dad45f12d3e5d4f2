// SPDX-License-Identifier: Apache-2.0
//
// What `nacre top` shows, and what its keys do: lines of text for a screen of any size. It knows no terminal.
#pragma once

#include "control/client.hpp"
#include "event/clock.hpp"
#include "front/ps_verb.hpp"
#include "value/idset.hpp"

namespace nacre::front {

// What `nacre top` knows of a job: the leader's answers to `status`, `exits` and `ps`, taken each period. It has no
// clock.

// The leader's answer to `status`.
struct TopStatus {
  std::string id;
  std::string name;
  std::uint64_t tasks = 0;
  std::uint64_t shells = 0;
  std::uint64_t running = 0;
  double started = 0;  // seconds since the Epoch
  bool ending = false;
  std::vector<std::string> hosts;  // of the shells, in their order; empty: the leader has left them out
  value::Idset gone = {};          // shells that are lost, or have left
  [[nodiscard]] std::uint64_t nodes() const { return shells - std::min(shells, gone.size()); }

  static Result<TopStatus> parse(const Json& json);
};

// The leader's answers of one period.
struct TopSample {
  TopStatus status;
  std::uint64_t failed = 0;                                         // tasks
  std::vector<PsTask> tasks;                                        // that run
  std::vector<std::string> late;                                    // hosts whose shells have not answered
  std::vector<std::string> notes = {};                              // why nothing is known of GPUs
  static Result<std::uint64_t> failed_of(const Json& exits);        // of the answer to `exits`
  static Result<std::vector<std::string>> late_of(const Json& ps);  // of the last part of the answer to `ps`
  static Result<std::vector<std::string>> notes_of(const Json& ps);
};

struct TopNode {
  std::string host;
  std::uint32_t shell = 0;
  std::uint64_t tasks = 0;                // that run
  double cpu = 0;                         // of one CPU, since the last sample
  double rss = 0;                         // bytes
  std::optional<double> late;             // seconds since its shell has last answered; none: it has answered now
  std::optional<double> gpu_memory = {};  // of the tasks for which it is known, as is the next; none: it is known
                                          // for none
  std::optional<double> gpu_device_use = {};  // the mean
};

class TopModel {
 public:
  // `now`: seconds since the Epoch. CPU use is that since the last sample; for a new task, since its start. A shell
  // that is late keeps the tasks that it had.
  void take(TopSample sample, double now);

  [[nodiscard]] bool empty() const { return status_.id.empty(); }  // nothing has been taken yet
  [[nodiscard]] const TopStatus& status() const { return status_; }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }
  [[nodiscard]] double time() const { return now_ - status_.started; }  // seconds that the job has run
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] std::vector<TopNode> nodes() const;                          // in the order of the shells
  [[nodiscard]] const std::vector<PsTask>& tasks() const { return tasks_; }  // in the order of their ranks
  [[nodiscard]] double cpu() const;                                          // of all tasks
  [[nodiscard]] double rss() const;
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  [[nodiscard]] Json json(bool with_tasks) const;

 private:
  struct Usage {
    std::int64_t pid = 0;
    double time = 0, cpu = 0;  // seconds
  };
  struct Node {
    std::string host;
    double seen = 0;  // when it has last answered
    bool late = false;
  };
  void measure(PsTask& task);

  TopStatus status_;
  std::uint64_t failed_ = 0;
  std::vector<std::string> notes_;
  double now_ = 0;
  std::vector<PsTask> tasks_;
  std::map<std::uint32_t, Usage> usage_;  // by rank
  std::map<std::uint32_t, Node> nodes_;   // by shell
};

struct TopKey {
  enum class Kind : std::uint8_t {
    text,  // `letter`
    up,
    down,
    page_up,
    page_down,
    home,
    end,
    enter,
    back,   // escape, left
    erase,  // backspace
  };
  Kind kind = Kind::text;
  char letter = 0;
};

struct TopLine {
  enum class Style : std::uint8_t { plain, title, alarm, heading, selected, hint };
  std::string text;
  Style style = Style::plain;
};

// Seconds from one look to the next: a duration (RFC 23) from TopView::kLeastDelay to kMostDelay.
Result<double> parse_delay(std::string_view text);

class TopView {
 public:
  enum class Rows : std::uint8_t { nodes, tasks, tasks_of_node };
  static constexpr double kLeastDelay = 0.1;  // seconds
  static constexpr double kMostDelay = 3600;

  // `with_gpus`: has columns for GPUs.
  TopView(Rows rows, double delay, bool with_gpus = false)
      : all_(rows), rows_(rows), delay_(delay), with_gpus_(with_gpus) {}

  // False: the user leaves. `height`: rows of the screen.
  [[nodiscard]] bool press(TopKey key, const TopModel& model, std::size_t height);
  [[nodiscard]] double delay() const { return delay_; }  // seconds from one look to the next
  // For how many seconds the leader has not answered, if that is worth showing.
  void set_waiting(std::optional<double> seconds) { waiting_ = seconds; }

  // At most `height` lines of at most `width` bytes. Moves the rows that are shown, so that the selected one is
  // among them.
  std::vector<TopLine> screen(const TopModel& model, std::size_t width, std::size_t height);
  // All of it, for output without a terminal.
  [[nodiscard]] std::string text(const TopModel& model) const;

 private:
  enum class Sort : std::uint8_t { order, cpu, rss, gpu_memory, tasks_or_time };
  // What a row stands for: a shell, or a rank.
  struct Row {
    std::uint32_t key = 0;
    bool is_late = false;
    std::vector<std::string> cells;
  };

  [[nodiscard]] std::vector<TopLine> header(const TopModel& model) const;
  [[nodiscard]] std::vector<Row> rows(const TopModel& model) const;
  [[nodiscard]] std::vector<Row> node_rows(const TopModel& model) const;
  [[nodiscard]] std::vector<Row> task_rows(const TopModel& model) const;
  // The first line is the headings.
  [[nodiscard]] std::vector<std::string> table(const std::vector<Row>& rows) const;
  [[nodiscard]] std::string hint() const;
  template <typename Each>
  void sort(std::vector<Each>& rows) const;
  template <typename Each>
  void put_gpu(const Each& row, std::vector<std::string>& cells, std::size_t behind) const;
  void next_sort();
  [[nodiscard]] std::string sort_name() const;
  // Index of the selected row: the one that was selected, or else the nearest.
  [[nodiscard]] std::size_t selected(const std::vector<Row>& rows) const;
  bool press_letter(char letter, const TopModel& model);
  void press_in_prompt(TopKey key);
  void move(std::ptrdiff_t by, const TopModel& model);
  void enter(const TopModel& model);
  bool leave();

  Rows all_;   // where `q` leaves the program
  Rows rows_;  // what is shown
  double delay_;
  bool with_gpus_;
  Sort sort_ = Sort::order;
  std::uint32_t node_ = 0;  // shell whose tasks are shown
  std::string node_name_;
  std::optional<std::uint32_t> key_;   // of the selected row
  std::size_t index_ = 0;              // where it was last
  std::size_t first_ = 0;              // the first row that is shown
  std::optional<std::string> prompt_;  // the delay as typed so far
  std::string message_;
  std::optional<double> waiting_;
};

// Asks the leader of a job for what `nacre top` shows. It never waits: the caller does, for
// Client::receives_from().
class TopFeed {
 public:
  // `with_gpus`: also what the tasks use of GPUs.
  explicit TopFeed(control::Client client, bool with_gpus = false)
      : client_(std::move(client)), with_gpus_(with_gpus) {}

  // Sends the requests, if the last ones were answered. ECONNRESET: the link has ended.
  Result<void> ask();
  // Takes what has come; returns a sample once all requests have been answered. A leader that is busy gives none.
  // ECONNRESET: the link has ended. Another error: what the leader answers is wrong.
  Result<std::optional<TopSample>> take();

  // When the open requests were sent, by clock_now(); none: no request is open.
  [[nodiscard]] std::optional<event::Seconds> waiting_since() const { return waiting_since_; }
  // The job's exit code, once the leader has reported the job's end.
  [[nodiscard]] const std::optional<int>& code() const { return code_; }
  [[nodiscard]] const control::Client& client() const { return client_; }

 private:
  Result<void> take_answer(const control::Answer& answer);

  control::Client client_;
  bool with_gpus_;
  std::uint64_t status_ = 0, exits_ = 0, ps_ = 0;  // numbers of the open requests; 0: it has been answered
  bool is_busy_ = false;
  TopSample sample_;
  std::optional<event::Seconds> waiting_since_;
  std::optional<int> code_;
};

}  // namespace nacre::front
