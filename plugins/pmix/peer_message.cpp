// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

namespace nacre::pmix {
namespace {

template <typename Number>
void append(std::string& out, Number number) {
  auto bits = static_cast<std::uint64_t>(number);
  for (std::size_t i = sizeof number; i-- > 0;) out += static_cast<char>(bits >> (8 * i) & 0xff);
}

// False if there are too few bytes.
template <typename Number>
bool take(std::string_view& bytes, Number& number) {
  if (bytes.size() < sizeof number) return false;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
  number = static_cast<Number>(bits);
  bytes.remove_prefix(sizeof number);
  return true;
}

bool take_text(std::string_view& bytes, std::string& text) {
  std::uint32_t length = 0;
  if (!take(bytes, length) || bytes.size() < length) return false;
  text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

}  // namespace

std::string encode(const PeerMessage& message) {
  std::string out;
  append(out, static_cast<std::uint8_t>(message.kind));
  append(out, message.start);
  append(out, message.shell);
  append(out, message.to);
  append(out, message.number);
  append(out, message.rank);
  append(out, static_cast<std::uint32_t>(message.status));
  for (const std::string& text : message.texts) {
    append(out, static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  return out;
}

std::optional<PeerMessage> decode(std::string_view bytes) {
  PeerMessage message;
  std::uint8_t kind = 0;
  if (!take(bytes, kind) || kind >= PeerMessage::kKinds || !take(bytes, message.start) ||
      !take(bytes, message.shell) || !take(bytes, message.to) || !take(bytes, message.number) ||
      !take(bytes, message.rank) || !take(bytes, message.status)) {
    return std::nullopt;
  }
  message.kind = static_cast<PeerMessage::Kind>(kind);
  while (!bytes.empty()) {
    if (!take_text(bytes, message.texts.emplace_back())) return std::nullopt;
  }
  return message;
}

// ---- process map ------------------------------------------------------------------------

void ProcessMap::add(const std::string& nspace, Rank offset, const RanksByNode& nodes) {
  const std::string* name = &offsets_.insert_or_assign(nspace, offset).first->first;
  for (const auto& [node, ranks] : nodes) {
    for (Rank rank : ranks) places_[offset + rank] = {name, rank, node};
  }
}

std::optional<Rank> ProcessMap::number_of(const std::string& nspace, Rank rank) const {
  auto offset = offsets_.find(nspace);
  if (offset == offsets_.end()) return std::nullopt;
  const Place* place = find(offset->second + rank);
  if (place == nullptr || place->rank != rank || *place->nspace != nspace) return std::nullopt;
  return offset->second + rank;
}

std::vector<Rank> ProcessMap::numbers_of(const std::string& nspace) const {
  std::vector<Rank> out;
  auto offset = offsets_.find(nspace);
  if (offset == offsets_.end()) return out;
  for (auto each = places_.lower_bound(offset->second); each != places_.end(); ++each) {
    if (*each->second.nspace != nspace) break;
    out.push_back(each->first);
  }
  return out;
}

const ProcessMap::Place* ProcessMap::find(Rank number) const {
  auto place = places_.find(number);
  return place != places_.end() ? &place->second : nullptr;
}

std::vector<Rank> ProcessMap::numbers_on(std::uint32_t node) const {
  std::vector<Rank> out;
  for (const auto& [number, place] : places_) {
    if (place.node == node) out.push_back(number);
  }
  return out;
}

std::set<std::uint32_t> ProcessMap::nodes_of(const std::string& nspace) const {
  std::set<std::uint32_t> out;
  for (Rank number : numbers_of(nspace)) out.insert(places_.at(number).node);
  return out;
}

// ---- process tables ---------------------------------------------------------------------

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

// ---- layout -----------------------------------------------------------------------------

namespace {

// Takes a number off the front of the text.
std::optional<Rank> take_rank(std::string_view& text) {
  Rank rank = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return rank;
}

bool take_char(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string text_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<Rank>> ranks_in(std::string_view text) {
  constexpr std::size_t kMost = std::size_t{1} << 24;
  std::vector<Rank> ranks;
  while (!text.empty()) {
    std::optional<Rank> first = take_rank(text);
    std::optional<Rank> last = first && take_char(text, '-') ? take_rank(text) : first;
    bool ascending = last && *first <= *last && (ranks.empty() || ranks.back() < *first);
    if (!ascending || *last - *first >= kMost || ranks.size() >= kMost) return std::nullopt;
    for (Rank rank = *first;; ++rank) {
      ranks.push_back(rank);
      if (rank == *last) break;
    }
    if (!text.empty() && (!take_char(text, ',') || text.empty())) return std::nullopt;
  }
  return ranks;
}

std::vector<std::string> distinct(std::vector<std::string> names) {
  std::set<std::string> taken(names.begin(), names.end());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second) continue;
    std::string other = names[i] + '-' + std::to_string(i);
    while (!taken.insert(other).second) other += '-';
    names[i] = std::move(other);
  }
  return names;
}

// ---- start filter -----------------------------------------------------------------------

std::optional<PeerMessage> StartFilter::pass(PeerMessage message) {
  if (message.start == current_) return message;
  if (message.start >= next_) kept_.push_back(std::move(message));
  return std::nullopt;
}

void StartFilter::await(std::uint64_t start) {
  next_ = std::max(next_, start);
  std::erase_if(kept_, [this](const PeerMessage& each) { return each.start < next_; });
}

std::vector<PeerMessage> StartFilter::begin(std::uint64_t start) {
  await(start);
  current_ = start;
  next_ = start + 1;
  auto later = std::stable_partition(kept_.begin(), kept_.end(),
                                     [start](const PeerMessage& each) { return each.start == start; });
  std::vector<PeerMessage> out(std::make_move_iterator(kept_.begin()), std::make_move_iterator(later));
  kept_.erase(kept_.begin(), later);
  return out;
}

// ---- collectives ------------------------------------------------------------------------

namespace {

constexpr std::string_view kAll = "*";

}  // namespace

Collectives::Collectives(std::vector<std::vector<Rank>> nodes, std::size_t here)
    : nodes_(std::move(nodes)), here_(here) {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    for (Rank rank : nodes_[node]) node_of_[rank] = node;
  }
  if (!node_of_.empty()) first_added_ = node_of_.rbegin()->first + 1;
}

void Collectives::add(std::size_t node, const std::vector<Rank>& ranks) {
  if (node >= nodes_.size()) nodes_.resize(node + 1);
  nodes_[node].insert(nodes_[node].end(), ranks.begin(), ranks.end());
  for (Rank rank : ranks) node_of_[rank] = node;
}

std::string Collectives::name_of(char kind, const std::vector<Rank>& ranks) {
  return kind + (ranks.empty() ? std::string(kAll) : text_of(ranks));
}

Collectives::Collective* Collectives::find(const std::string& name) {
  if (auto known = collectives_.find(name); known != collectives_.end()) return &known->second;
  if (name.empty()) return nullptr;
  Collective collective;
  std::string_view members = std::string_view(name).substr(1);
  if (members == kAll) {
    for (const auto& [rank, node] : node_of_) {
      if (rank < first_added_) collective.participants[node].push_back(rank);
    }
  } else {
    for (Rank rank : ranks_in(members).value_or(std::vector<Rank>())) {
      if (auto node = node_of_.find(rank); node != node_of_.end()) {
        collective.participants[node->second].push_back(rank);
      }
    }
  }
  if (collective.participants.count(here_) == 0) return nullptr;
  return &collectives_.emplace(name, std::move(collective)).first->second;
}

void Collectives::enter(const std::string& name, Done done) {
  Collective* collective = find(name);
  if (collective != nullptr) collective->waiting.push_back(std::move(done));
}

void Collectives::part(std::size_t node, const std::string& name, int status, std::string bytes) {
  Collective* collective = find(name);
  if (collective == nullptr || collective->participants.count(node) == 0) return;
  collective->parts[node].push_back({status, std::move(bytes)});
  while (complete(*collective)) {
  }
  if (is_idle(*collective)) collectives_.erase(name);
}

void Collectives::ended(Rank rank) {
  ended_.insert(rank);
  look_at_all();
}

void Collectives::over(std::size_t node) {
  if (node >= nodes_.size()) return;
  ended_.insert(nodes_[node].begin(), nodes_[node].end());
  look_at_all();
}

void Collectives::look_at_all() {
  for (auto& [name, collective] : collectives_) {
    while (complete(collective)) {
    }
  }
  std::erase_if(collectives_, [](const auto& each) { return is_idle(each.second); });
}

bool Collectives::is_idle(const Collective& collective) {
  return collective.waiting.empty() && std::all_of(collective.parts.begin(), collective.parts.end(),
                                                   [](const auto& each) { return each.second.empty(); });
}

bool Collectives::is_missing(const Collective& collective, std::size_t node) const {
  auto given = collective.parts.find(node);
  if (given != collective.parts.end() && !given->second.empty()) return false;
  const std::vector<Rank>& ranks = collective.participants.at(node);
  return std::any_of(ranks.begin(), ranks.end(), [this](Rank rank) { return ended_.count(rank) == 0; });
}

// Whether every node has given a part to the first round. A round to which no node gives a part, as all processes
// have ended, does not count.
bool Collectives::complete(Collective& collective) {
  bool any = false;
  for (const auto& [node, ranks] : collective.participants) {
    if (is_missing(collective, node)) return false;
  }
  int status = 0;
  std::string all;
  bool mine = false;
  for (auto& [node, parts] : collective.parts) {
    if (parts.empty()) continue;
    any = true;
    mine = mine || node == here_;
    if (status == 0) status = parts.front().status;
    all += parts.front().bytes;
    parts.pop_front();
  }
  if (!mine || collective.waiting.empty()) return any;
  Done done = std::move(collective.waiting.front());
  collective.waiting.pop_front();
  done(status, all);
  return true;
}

}  // namespace nacre::pmix
