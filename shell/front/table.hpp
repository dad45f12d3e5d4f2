// SPDX-License-Identifier: Apache-2.0
//
// Tables for people: each column is as wide as its widest cell; the last one is not padded.
#pragma once

#include "base/usual.hpp"

namespace nacre::front {

class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string name;
    Side side = Side::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // A cell for each column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string text(bool header) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` with \xNN in the place of bytes that a terminal would take for commands, cut to `most` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most);
// "0.512s", "12.3s", "4.5m", "1.2h", "3.1d".
[[nodiscard]] std::string time_text(double seconds);
// "512", "12.3K", "4.5M", "1.2G", "3.1T".
[[nodiscard]] std::string size_text(double bytes);

}  // namespace nacre::front
