// SPDX-License-Identifier: Apache-2.0
#include "value/hostlist.hpp"

#include "base/text.hpp"

namespace nacre::value {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digits_in(std::uint64_t number) { return static_cast<int>(fmt::formatted_size("{}", number)); }

// A number in text: its value, and the width that its leading zeros demand (0: it has none).
struct Number {
  std::uint64_t value = 0;
  int width = 0;
};

// `digits` has 1 to Hostlist::kMaxDigits digits.
Number number_of(std::string_view digits) {
  bool padded = digits.size() > 1 && digits.front() == '0';
  return {parse_u64(digits).value_or(0), padded ? static_cast<int>(digits.size()) : 0};
}

Result<Number> parse_number(std::string_view text) {
  if (text.empty()) return invalid("expected a number, got nothing");
  if (text.find_first_not_of(kDigits) != std::string_view::npos) {
    return invalid(fmt::format("expected a number, got {}", in_quotes(text)));
  }
  if (text.size() > Hostlist::kMaxDigits) {
    return Error{ERANGE,
                 fmt::format("a number has at most {} digits, got {}", Hostlist::kMaxDigits, in_quotes(text))};
  }
  return number_of(text);
}

Error too_many() { return Error{E2BIG, fmt::format("more than {} names", Hostlist::kMaxHosts)}; }

Error too_long(std::size_t size) {
  return Error{ENAMETOOLONG, fmt::format("a name has at most {} bytes, got {}", Hostlist::kMaxName, size)};
}

// Commas within brackets do not end an expression.
std::size_t expression_end(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return i;
  }
  return text.size();
}

// `part` is outside of the brackets of the expression.
Result<void> check_name_part(std::string_view part) {
  for (char c : part) {
    if (c == ']') return invalid("']' without '['");
    if (c == '[') return invalid("expected one pair of brackets, got two");
    if (c <= ' ' || c >= 0x7f) return invalid("expected printable ASCII without blanks");
  }
  return {};
}

std::size_t digits_at(std::string_view text, std::size_t start) {
  std::size_t end = start;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - start;
}

// Text whose order by bytes is the order of sort(). A number becomes a '0', so that it sorts like a digit among
// other bytes, then its number of digits, with leading zeros, and these digits: so 9, 10, 010.
std::string sort_key(std::string_view name) {
  std::string key;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t count = digits_at(name, at);
    if (count == 0) {
      key += name[at++];
      continue;
    }
    key += '0';
    key += static_cast<char>(count);
    key += name.substr(at, count);
    at += count;
  }
  return key;
}

}  // namespace

// ---- runs --------------------------------------------------------------------

Hostlist::Run Hostlist::Run::of(std::string_view name) {
  auto end = name.size();
  if (name.empty() || !is_digit(name.back())) {
    std::size_t digit = name.substr(0, name.find('.')).find_last_of(kDigits);
    end = digit == std::string_view::npos ? 0 : digit + 1;
  }
  std::size_t start = end;
  while (start > 0 && is_digit(name[start - 1])) --start;
  Run run;
  if (start == end || end - start > kMaxDigits) {
    run.prefix = name;
    return run;
  }
  Number number = number_of(name.substr(start, end - start));
  run.prefix = name.substr(0, start);
  run.suffix = name.substr(end);
  run.first = run.last = number.value;
  run.width = number.width;
  run.numbered = true;
  return run;
}

std::string Hostlist::Run::name(std::uint64_t n) const {
  if (!numbered) return prefix;
  return fmt::format("{}{:0{}}{}", prefix, first + n, width, suffix);
}

std::optional<std::uint64_t> Hostlist::Run::find(std::string_view name) const {
  if (!numbered) return name == prefix ? std::optional<std::uint64_t>(0) : std::nullopt;
  std::size_t around = prefix.size() + suffix.size();
  if (name.size() <= around) return std::nullopt;
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  auto value = parse_u64(name.substr(prefix.size(), name.size() - around));
  if (!value || *value < first || *value > last) return std::nullopt;
  // "7" is not "07".
  if (name.size() - around != static_cast<std::size_t>(std::max(width, digits_in(*value)))) return std::nullopt;
  return *value - first;
}

Hostlist::Run Hostlist::Run::slice(std::uint64_t from, std::uint64_t length) const {
  Run part = *this;
  part.first = first + from;
  part.last = part.first + length - 1;
  return part;
}

bool Hostlist::Run::alike(const Run& other) const {
  return numbered && other.numbered && width == other.width && prefix == other.prefix && suffix == other.suffix;
}

void Hostlist::Run::write_numbers(std::string& out) const {
  fmt::format_to(std::back_inserter(out), "{:0{}}", first, width);
  if (first != last) fmt::format_to(std::back_inserter(out), "-{:0{}}", last, width);
}

void Hostlist::push(Run run) {
  Run* back = runs_.empty() ? nullptr : &runs_.back();
  // A width that pads nothing counts as none, unless the neighbour has it: "10" after "09" has the same form.
  int shortest = digits_in(run.first);
  if (run.width <= shortest) run.width = 0;
  if (run.width == 0 && back && back->width <= shortest) {
    run.width = back->width;
    if (!back->alike(run)) run.width = 0;
  }
  run.position = size_;
  size_ += run.count();
  if (back && back->alike(run) && run.first == back->last + 1) {
    back->last = run.last;
  } else {
    runs_.push_back(std::move(run));
  }
}

// ---- text --------------------------------------------------------------------

Result<Hostlist> Hostlist::parse(std::string_view text) {
  if (text.size() > kMaxText) {
    return Error{E2BIG, fmt::format("hostlist: expected at most {} bytes, got {}", kMaxText, text.size())};
  }
  Hostlist list;
  while (!text.empty()) {
    std::size_t end = expression_end(text);
    std::string_view expression = text.substr(0, end);
    Result<void> parsed = list.parse_expression(expression);
    if (!parsed) return in(fmt::format("hostlist: {}", in_quotes(expression)), std::move(parsed).error());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

Result<void> Hostlist::parse_expression(std::string_view text) {
  std::size_t open = text.find('[');
  std::string_view prefix = text.substr(0, open);
  CHECK_OK(check_name_part(prefix));
  if (open != std::string_view::npos) {
    std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) return invalid("'[' without ']'");
    std::string_view suffix = text.substr(close + 1);
    CHECK_OK(check_name_part(suffix));
    return parse_idlist(prefix, text.substr(open + 1, close - open - 1), suffix);
  }
  if (text.empty()) return {};
  if (text.size() > kMaxName) return too_long(text.size());
  if (size_ >= kMaxHosts) return too_many();
  push(Run::of(text));
  return {};
}

Result<void> Hostlist::parse_idlist(std::string_view prefix, std::string_view list, std::string_view suffix) {
  int width_of_all = 0;
  const char* begin = list.data();
  for (std::string_view item : split(list, ',')) {
    std::size_t dash = item.find('-');
    Number first = TRY(parse_number(item.substr(0, dash)));
    Number last = dash == std::string_view::npos ? first : TRY(parse_number(item.substr(dash + 1)));
    if (last.value < first.value) return invalid(fmt::format("the range {} goes backwards", in_quotes(item)));
    if (last.value - first.value >= kMaxHosts - size_) return too_many();
    if (item.data() == begin) width_of_all = first.width;
    int width = width_of_all > 0 ? width_of_all : first.width;
    if (width == 0 && last.width > 0) {
      return invalid(fmt::format("the range {} has leading zeros at its end only", in_quotes(item)));
    }
    std::size_t size =
        prefix.size() + suffix.size() + static_cast<std::size_t>(std::max(width, digits_in(last.value)));
    if (size > kMaxName) return too_long(size);
    push({std::string(prefix), std::string(suffix), first.value, last.value, width, true, 0});
  }
  return {};
}

std::string Hostlist::str() const {
  std::string out;
  for (auto run = runs_.begin(); run != runs_.end();) {
    if (!out.empty()) out += ',';
    auto end = std::find_if_not(run + 1, runs_.end(), [&](const Run& each) { return each.alike(*run); });
    if (end == run + 1 && run->count() == 1) {
      out += run->name(0);
    } else {
      out += run->prefix;
      char before = '[';
      for (auto each = run; each != end; ++each) {
        out += std::exchange(before, ',');
        each->write_numbers(out);
      }
      out += ']';
      out += run->suffix;
    }
    run = end;
  }
  return out;
}

// ---- names -------------------------------------------------------------------

std::optional<std::string> Hostlist::nth(std::uint64_t n) const {
  if (n >= size_) return std::nullopt;
  auto after = std::upper_bound(runs_.begin(), runs_.end(), n,
                                [](std::uint64_t value, const Run& run) { return value < run.position; });
  const Run& run = *std::prev(after);
  return run.name(n - run.position);
}

std::optional<std::uint64_t> Hostlist::find(std::string_view name) const {
  for (const Run& run : runs_) {
    if (auto n = run.find(name)) return run.position + *n;
  }
  return std::nullopt;
}

std::vector<std::string> Hostlist::names() const {
  std::vector<std::string> out;
  out.reserve(size_);
  for (const Run& run : runs_) {
    for (std::uint64_t n = 0; n < run.count(); ++n) out.push_back(run.name(n));
  }
  return out;
}

// Two lists may hold the same names as different runs: "a1[2-3]" and "a[12-13]".
bool Hostlist::operator==(const Hostlist& other) const {
  return size_ == other.size_ && (runs_ == other.runs_ || names() == other.names());
}

// ---- changes -----------------------------------------------------------------

void Hostlist::append(std::string_view name) { push(Run::of(name)); }

void Hostlist::append(const Hostlist& other) {
  std::vector<Run> runs = other.runs_;  // a copy, as `other` may be this list
  for (Run& run : runs) push(std::move(run));
}

// Sorts by the first names. True if all names are in order then; a run's own names always are.
bool Hostlist::sort_runs(std::vector<Run>& runs) {
  std::vector<std::pair<std::string, std::size_t>> keys;
  keys.reserve(runs.size());
  for (const Run& run : runs) keys.emplace_back(sort_key(run.name(0)), keys.size());
  std::sort(keys.begin(), keys.end());
  std::vector<Run> sorted;
  sorted.reserve(runs.size());
  bool in_order = true;
  for (const auto& [key, index] : keys) {
    if (!sorted.empty() && sorted.back().count() > 1) {
      in_order = in_order && sort_key(sorted.back().name(sorted.back().count() - 1)) <= key;
    }
    sorted.push_back(std::move(runs[index]));
  }
  runs = std::move(sorted);
  return in_order;
}

void Hostlist::sort() {
  std::vector<Run> runs = std::exchange(runs_, {});
  if (!sort_runs(runs)) {
    std::vector<Run> singles;
    singles.reserve(size_);
    for (const Run& run : runs) {
      for (std::uint64_t n = 0; n < run.count(); ++n) singles.push_back(run.slice(n, 1));
    }
    runs = std::move(singles);
    sort_runs(runs);
  }
  size_ = 0;
  for (Run& run : runs) push(std::move(run));
}

void Hostlist::uniq() {
  sort();
  Hostlist kept;
  std::string last;
  for (Run& run : runs_) {
    bool repeats = !kept.empty() && run.name(0) == last;
    last = run.name(run.count() - 1);
    if (!repeats) {
      kept.push(std::move(run));
    } else if (run.count() > 1) {
      kept.push(run.slice(1, run.count() - 1));
    }
  }
  *this = std::move(kept);
}

Hostlist Hostlist::part(std::uint64_t n, std::uint64_t length) const {
  Hostlist out;
  std::uint64_t end = length < size_ - std::min(n, size_) ? n + length : size_;
  for (const Run& run : runs_) {
    std::uint64_t from = std::max(n, run.position);
    std::uint64_t to = std::min(end, run.position + run.count());
    if (from < to) out.push(run.slice(from - run.position, to - from));
  }
  return out;
}

std::uint64_t Hostlist::remove(const Hostlist& other) {
  std::unordered_map<std::string, std::uint64_t> doomed;
  for (std::string& name : other.names()) ++doomed[std::move(name)];
  Hostlist kept;
  for (const Run& run : runs_) {
    std::uint64_t from = 0;  // of the names that are not yet kept
    for (std::uint64_t n = 0; n < run.count(); ++n) {
      auto it = doomed.find(run.name(n));
      if (it == doomed.end() || it->second == 0) continue;
      --it->second;
      if (from < n) kept.push(run.slice(from, n - from));
      from = n + 1;
    }
    if (from < run.count()) kept.push(run.slice(from, run.count() - from));
  }
  std::uint64_t removed = size_ - kept.size_;
  *this = std::move(kept);
  return removed;
}

}  // namespace nacre::value
