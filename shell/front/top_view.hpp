// SPDX-License-Identifier: Apache-2.0
//
// What `nacre top` shows, and what its keys do: lines of text for a screen of any size. It knows no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "front/top_model.hpp"

namespace nacre::front {

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

  // `with_gpus`: with columns for these.
  TopView(Rows rows, double delay, bool with_gpus = false)
      : all_(rows), rows_(rows), delay_(delay), with_gpus_(with_gpus) {}

  // False: the user leaves. `height`: rows of the screen.
  [[nodiscard]] bool press(TopKey key, const TopModel& model, std::size_t height);
  [[nodiscard]] double delay() const { return delay_; }  // seconds from one look to the next
  // How long the leader has not answered for, in seconds, if that is worth to be shown.
  void set_waiting(std::optional<double> seconds) { waiting_ = seconds; }

  // At most `height` lines of at most `width` bytes. Moves the rows that are shown, so that the selected one is
  // among them.
  std::vector<TopLine> screen(const TopModel& model, std::size_t width, std::size_t height);
  // All of it, for where there is no terminal.
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
  // Index of the selected row: of what has been selected, or else the nearest.
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
  std::optional<std::string> prompt_;  // what has been typed of a delay
  std::string message_;
  std::optional<double> waiting_;
};

}  // namespace nacre::front
