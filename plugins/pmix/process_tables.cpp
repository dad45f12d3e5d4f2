// SPDX-License-Identifier: Apache-2.0
#include "process_tables.hpp"

#include <charconv>

namespace nacre::pmix {
namespace {

// Takes a number off the front of the text, and the space behind it.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || length >= text.size() || text[length] != ' ') return false;
  text.remove_prefix(length + 1);
  return true;
}

}  // namespace

std::string text_of(const ProcessRow& row) {
  std::string text;
  for (std::int64_t number :
       {std::int64_t{row.rank}, std::int64_t{row.pid}, std::int64_t{row.state}, std::int64_t{row.exit_code}})
    text += std::to_string(number) + ' ';
  return text + row.command;
}

std::optional<ProcessRow> row_in(std::string_view text) {
  ProcessRow row;
  if (!take_number(text, row.rank) || !take_number(text, row.pid) || !take_number(text, row.state) ||
      !take_number(text, row.exit_code))
    return std::nullopt;
  row.command = text;
  return row;
}

std::uint64_t ProcessTables::ask(std::set<std::uint32_t> shells, Done done) {
  tables_[++last_] = {std::move(shells), {}, std::move(done)};
  return last_;
}

void ProcessTables::answered(std::uint32_t shell, std::uint64_t number, const std::vector<std::string>& rows) {
  auto table = tables_.find(number);
  if (table == tables_.end() || table->second.asked.erase(shell) == 0) return;
  for (const std::string& text : rows) {
    if (auto row = row_in(text)) table->second.rows.insert_or_assign(row->rank, *row);
  }
  if (table->second.asked.empty()) give_up(number);
}

void ProcessTables::lost(std::uint32_t shell) {
  std::vector<std::uint64_t> complete;
  for (auto& [number, table] : tables_) {
    if (table.asked.erase(shell) > 0 && table.asked.empty()) complete.push_back(number);
  }
  for (std::uint64_t number : complete) give_up(number);
}

void ProcessTables::give_up(std::uint64_t number) {
  auto table = tables_.extract(number);
  if (table) table.mapped().done(table.mapped().rows);
}

void ProcessTables::give_up_all() {
  while (!tables_.empty()) give_up(tables_.begin()->first);
}

}  // namespace nacre::pmix
