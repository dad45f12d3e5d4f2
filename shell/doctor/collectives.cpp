// SPDX-License-Identifier: Apache-2.0
#include "doctor/collectives.hpp"

#include <bit>

#include "doctor/findings.hpp"
#include "wire/json.hpp"

namespace nacre::doctor {
namespace {

using PickleKind = PickleValue::Kind;

// Opcodes of pickletools.
enum class Op : unsigned char {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kInt = 'J',
  kInt1 = 'K',
  kInt2 = 'M',
  kFloat = 'G',
  kUnicode = 'X',
  kAppend = 'a',
  kAppends = 'e',
  kGet = 'h',
  kLongGet = 'j',
  kPut = 'q',
  kLongPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kLong1 = 0x8a,
  kShortUnicode = 0x8c,
  kUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1 to EXT4, PERSID, BINPERSID.
bool would_run(unsigned char op) {
  return op != 0 && std::strchr("c\x93Rbio\x81\x92\x82\x83\x84PQ", op) != nullptr;
}

}  // namespace

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickle> read() {
    if (bytes_.size() > Pickle::kMostBytes)
      return invalid(fmt::format("it has more than {} bytes", Pickle::kMostBytes));
    while (at_ < bytes_.size()) {
      std::size_t place = at_;
      auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == static_cast<unsigned char>(Op::kStop)) return finish(place);
      if (Result<void> done = step(op); !done) return in(fmt::format("byte {}", place), done.error());
    }
    return invalid("it has no end");
  }

 private:
  Result<Pickle> finish(std::size_t place) {
    if (stack_.size() != 1 || !marks_.empty()) return in(fmt::format("byte {}", place), wrong());
    out_.root_ = stack_[0];
    return std::move(out_);
  }

  static Error wrong() { return invalid("it is no pickle"); }

  Result<void> step(unsigned char op) {
    if (would_run(op)) return invalid("it would run a function of Python, and is refused");
    switch (static_cast<Op>(op)) {
      case Op::kProto: return protocol();
      case Op::kFrame: return skip(sizeof(std::uint64_t));
      case Op::kMark: return mark();
      case Op::kNone: return push({});
      case Op::kTrue: return push({PickleKind::boolean, 1, 0, {}, {}});
      case Op::kFalse: return push({PickleKind::boolean, 0, 0, {}, {}});
      case Op::kEmptyTuple:
      case Op::kEmptyList: return push({PickleKind::list, 0, 0, {}, {}});
      case Op::kEmptyDict: return push({PickleKind::dict, 0, 0, {}, {}});
      case Op::kTuple: return tuple_of_mark();
      case Op::kTuple1: return tuple(1);
      case Op::kTuple2: return tuple(2);
      case Op::kTuple3: return tuple(3);
      case Op::kAppend: return extend(1, PickleKind::list);
      case Op::kSetItem: return extend(2, PickleKind::dict);
      case Op::kAppends: return extend_by_mark(PickleKind::list);
      case Op::kSetItems: return extend_by_mark(PickleKind::dict);
      default: return step_with_operand(op);
    }
  }

  Result<void> step_with_operand(unsigned char op) {
    switch (static_cast<Op>(op)) {
      case Op::kInt: return push_integer(static_cast<std::int32_t>(TRY(number(4))));
      case Op::kInt1: return push_integer(static_cast<std::int64_t>(TRY(number(1))));
      case Op::kInt2: return push_integer(static_cast<std::int64_t>(TRY(number(2))));
      case Op::kLong1: return push_long();
      case Op::kFloat: return push_float();
      case Op::kUnicode: return push_text(TRY(number(4)));
      case Op::kShortUnicode: return push_text(TRY(number(1)));
      case Op::kUnicode8: return push_text(TRY(number(8)));
      case Op::kPut: return memoize(TRY(number(1)));
      case Op::kLongPut: return memoize(TRY(number(4)));
      case Op::kMemoize: return memoize(memo_.size());
      case Op::kGet: return recall(TRY(number(1)));
      case Op::kLongGet: return recall(TRY(number(4)));
      default: return invalid(fmt::format("the opcode 0x{:02x} is not known here", op));
    }
  }

  // A number of `size` bytes, the least first.
  Result<std::uint64_t> number(std::size_t size) {
    if (bytes_.size() - at_ < size) return invalid("it has no end");
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < size; ++i)
      out |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += size;
    return out;
  }

  Result<void> skip(std::size_t size) {
    static_cast<void>(TRY(number(size)));
    return {};
  }

  Result<void> protocol() {
    constexpr std::uint64_t kLeast = 2;
    constexpr std::uint64_t kMost = 4;
    std::uint64_t version = TRY(number(1));
    if (version >= kLeast && version <= kMost) return {};
    return invalid(fmt::format("it is of protocol {}, and those from 2 to 4 are known", version));
  }

  Result<void> mark() {
    if (marks_.size() == Pickle::kMostDepth)
      return invalid(fmt::format("it is deeper than {}", Pickle::kMostDepth));
    marks_.push_back(stack_.size());
    return {};
  }

  Result<void> push(PickleValue value) {
    if (out_.values_.size() == Pickle::kMostValues)
      return invalid(fmt::format("it has more than {} values", Pickle::kMostValues));
    out_.values_.push_back(std::move(value));
    return push_index(static_cast<std::uint32_t>(out_.values_.size() - 1));
  }

  Result<void> push_index(std::uint32_t index) {
    if (stack_.size() == Pickle::kMostValues)
      return invalid(fmt::format("it has more than {} values", Pickle::kMostValues));
    stack_.push_back(index);
    return {};
  }

  Result<void> push_integer(std::int64_t value) { return push({PickleKind::integer, value, 0, {}, {}}); }

  // Its highest bit is the sign.
  Result<void> push_long() {
    constexpr std::size_t kMost = sizeof(std::int64_t);
    std::size_t size = TRY(number(1));
    if (size > kMost) return invalid("it has an integer of more than 64 bits");
    if (size == 0) return push_integer(0);
    std::uint64_t value = TRY(number(size));
    auto unused = static_cast<int>(8 * (kMost - size));
    return push_integer(static_cast<std::int64_t>(value << unused) >> unused);
  }

  // The highest byte comes first.
  Result<void> push_float() {
    std::uint64_t bits = __builtin_bswap64(TRY(number(sizeof(double))));
    return push({PickleKind::number, 0, std::bit_cast<double>(bits), {}, {}});
  }

  Result<void> push_text(std::uint64_t size) {
    if (bytes_.size() - at_ < size) return invalid("it has no end");
    std::string_view text = bytes_.substr(at_, size);
    at_ += size;
    return push({PickleKind::text, 0, 0, text, {}});
  }

  Result<void> memoize(std::uint64_t number) {
    if (stack_.size() <= base()) return wrong();
    if (memo_.size() >= Pickle::kMostValues)
      return invalid(fmt::format("it has more than {} values", Pickle::kMostValues));
    memo_[number] = stack_.back();
    return {};
  }

  Result<void> recall(std::uint64_t number) {
    auto found = memo_.find(number);
    if (found == memo_.end()) return wrong();
    return push_index(found->second);
  }

  // Where the items behind the last mark begin.
  [[nodiscard]] std::size_t base() const { return marks_.empty() ? 0 : marks_.back(); }

  Result<void> tuple(std::size_t count) {
    if (stack_.size() - base() < count) return wrong();
    PickleValue value;
    value.kind = PickleKind::list;
    CHECK_OK(move_items(stack_.size() - count, value.items));
    return push(std::move(value));
  }

  Result<void> tuple_of_mark() {
    if (marks_.empty()) return wrong();
    std::size_t count = stack_.size() - marks_.back();
    CHECK_OK(tuple(count));
    marks_.pop_back();
    return {};
  }

  // Moves the stack's items from there on.
  Result<void> move_items(std::size_t from, std::vector<std::uint32_t>& to) {
    items_ += stack_.size() - from;
    if (items_ > Pickle::kMostItems) return invalid(fmt::format("it has more than {} items", Pickle::kMostItems));
    to.insert(to.end(), stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return {};
  }

  Result<void> extend(std::size_t count, PickleKind kind) {
    if (stack_.size() - base() < count + 1) return wrong();
    PickleValue& value = out_.values_[stack_[stack_.size() - count - 1]];
    if (value.kind != kind) return wrong();
    return move_items(stack_.size() - count, value.items);
  }

  Result<void> extend_by_mark(PickleKind kind) {
    if (marks_.empty()) return wrong();
    std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    if (kind == PickleKind::dict && count % 2 != 0) return wrong();
    return extend(count, kind);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle out_;
  std::vector<std::uint32_t> stack_;  // of values
  std::vector<std::size_t> marks_;    // sizes of the stack
  std::map<std::uint64_t, std::uint32_t> memo_;
  std::size_t items_ = 0;
};

Result<Pickle> Pickle::read(std::string_view bytes) { return PickleReader(bytes).read(); }

const PickleValue* Pickle::member(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != PickleKind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& each = values_[dict.items[i]];
    if (each.kind == PickleKind::text && each.text == key) return &values_[dict.items[i + 1]];
  }
  return nullptr;
}

namespace {

std::string cut(std::string_view text) { return std::string(text.substr(0, CollectiveLog::kMostText)); }

std::string_view text_of(const PickleValue* value) {
  return value == nullptr || value->kind != PickleKind::text ? std::string_view() : value->text;
}

std::optional<std::uint64_t> number_of(const PickleValue* value) {
  if (value == nullptr || value->kind != PickleKind::integer || value->integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->integer);
}

// "[[1024], [16, 4]]", of numbers in lists in a list.
std::string sizes_of(const Pickle& pickle, const PickleValue* sizes) {
  if (sizes == nullptr || sizes->kind != PickleKind::list) return "";
  std::string out = "[";
  for (std::uint32_t each : sizes->items) {
    std::string one;
    for (std::uint32_t number : pickle.at(each).items)
      one += fmt::format("{}{}", one.empty() ? "" : ", ", pickle.at(number).integer);
    out += fmt::format("{}[{}]", out.size() == 1 ? "" : ", ", one);
    if (out.size() > CollectiveLog::kMostText) return cut(out);
  }
  return out + "]";
}

// ("0", "default_pg"); in older versions the name alone, or a number.
std::string group_name(const Pickle& pickle, const PickleValue& entry) {
  const PickleValue* name = pickle.member(entry, "process_group");
  if (name != nullptr && name->kind == PickleKind::list && name->items.size() == 2)
    return cut(fmt::format("{} ({})", text_of(&pickle.at(name->items[0])), text_of(&pickle.at(name->items[1]))));
  if (auto text = text_of(name); !text.empty()) return cut(text);
  return fmt::format("{}", number_of(pickle.member(entry, "pg_id")).value_or(0));
}

class DumpReader {
 public:
  DumpReader(const Pickle& pickle, double now) : pickle_(pickle), now_(now) {}

  Result<CollectiveLog> read() {
    const PickleValue* entries = pickle_.member(pickle_.root(), "entries");
    if (entries == nullptr || entries->kind != PickleKind::list) return invalid("it has no list of entries");
    add_groups();
    for (std::uint32_t each : entries->items) add(pickle_.at(each));
    CollectiveLog out;
    for (auto& [name, group] : groups_) out.groups.push_back(std::move(group));
    // The groups with the most calls are kept.
    std::stable_sort(out.groups.begin(), out.groups.end(), [](const auto& a, const auto& b) {
      return (a.last.empty() ? 0 : a.last.back().number) > (b.last.empty() ? 0 : b.last.back().number);
    });
    if (out.groups.size() > CollectiveLog::kMostGroups) out.groups.resize(CollectiveLog::kMostGroups);
    if (newest_ > 0) out.since = std::max(0.0, now_ - newest_);
    return out;
  }

 private:
  // Adds groups in which nothing has been called as well.
  void add_groups() {
    const PickleValue* config = pickle_.member(pickle_.root(), "pg_config");
    if (config == nullptr || config->kind != PickleKind::dict) return;
    for (std::size_t i = 1; i < config->items.size() && groups_.size() < kMostRead; i += 2) {
      const PickleValue& each = pickle_.at(config->items[i]);
      std::string name =
          cut(fmt::format("{} ({})", text_of(pickle_.member(each, "name")), text_of(pickle_.member(each, "desc"))));
      groups_[name] = {name, cut(text_of(pickle_.member(each, "ranks"))), {}};
    }
  }

  void add(const PickleValue& entry) {
    auto number = number_of(pickle_.member(entry, "collective_seq_id"));
    const PickleValue* point = pickle_.member(entry, "is_p2p");
    if (!number || (point != nullptr && point->integer != 0)) return;
    std::string name = group_name(pickle_, entry);
    if (!groups_.contains(name) && groups_.size() >= kMostRead) return;
    CollectiveGroup& group = groups_[name];
    group.name = name;
    std::string_view what = text_of(pickle_.member(entry, "profiling_name"));
    if (what.starts_with("nccl:")) what.remove_prefix(5);
    CollectiveCall one{*number, cut(what), sizes_of(pickle_, pickle_.member(entry, "input_sizes")),
                       cut(text_of(pickle_.member(entry, "state")))};
    // Several calls made as one have one number; the last of them represents it.
    if (!group.last.empty() && group.last.back().number == *number)
      group.last.back() = std::move(one);
    else if (group.last.empty() || group.last.back().number < *number)
      group.last.push_back(std::move(one));
    else
      return;
    if (group.last.size() > CollectiveLog::kMostLast) group.last.erase(group.last.begin());
    constexpr double kNanoseconds = 1e9;  // of a second
    auto created = number_of(pickle_.member(entry, "time_created_ns"));
    if (created) newest_ = std::max(newest_, static_cast<double>(*created) / kNanoseconds);
  }

  static constexpr std::size_t kMostRead = 4096;  // process groups

  const Pickle& pickle_;
  double now_;
  double newest_ = 0;  // seconds since 1970
  std::map<std::string, CollectiveGroup> groups_;
};

// ---- what follows -------------------------------------------------------------------------

// What the tasks of one log have called in one process group.
struct Member {
  const CollectiveLog* log = nullptr;
  const CollectiveGroup* group = nullptr;

  [[nodiscard]] std::uint64_t last() const { return group->last.empty() ? 0 : group->last.back().number; }
  [[nodiscard]] const CollectiveCall* at(std::uint64_t number) const {
    auto found = std::find_if(group->last.begin(), group->last.end(),
                              [&](const CollectiveCall& each) { return each.number == number; });
    return found == group->last.end() ? nullptr : &*found;
  }
};
using Members = std::vector<Member>;

// Whether each task gives as much as the others in this collective.
bool has_equal_sizes(std::string_view name) {
  constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "reduce", "_all_gather_base",
                                         "_reduce_scatter_base"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string call_text(const CollectiveCall& call) {
  return has_equal_sizes(call.name) && !call.sizes.empty() ? call.name + " of " + call.sizes : call.name;
}

std::uint64_t count_of(const Members& members) {
  std::uint64_t out = 0;
  for (const Member& each : members) out += each.log->ranks.size();
  return out;
}

CollectiveFinding finding(const Members& members, std::string text, std::string evidence) {
  CollectiveFinding out{{}, {}, std::move(text), std::move(evidence)};
  for (const Member& each : members) {
    out.ranks.insert(each.log->ranks);
    out.torch_ranks.insert(each.log->torch_ranks);
  }
  if (out.torch_ranks == out.ranks) out.torch_ranks = {};
  return out;
}

std::string counted_others(std::uint64_t number) {
  return fmt::format("{} other{}", number, number == 1 ? "" : "s");
}

// Which tasks have called what with a number; the call of most tasks comes first.
std::vector<std::pair<std::string, Members>> calls_at(const Members& members, std::uint64_t number) {
  std::map<std::string, Members> by_call;
  for (const Member& each : members) {
    if (const CollectiveCall* call = each.at(number)) by_call[call_text(*call)].push_back(each);
  }
  std::vector<std::pair<std::string, Members>> out(by_call.begin(), by_call.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return count_of(a.second) > count_of(b.second); });
  return out;
}

// The first number at which they call different collectives; later differences follow from it. False: there is
// none.
bool differ(const std::string& group, const Members& members, std::vector<CollectiveFinding>& out) {
  std::map<std::uint64_t, int> numbers;
  for (const Member& each : members) {
    for (const CollectiveCall& call : each.group->last) numbers[call.number] = 0;
  }
  for (const auto& [number, unused] : numbers) {
    auto calls = calls_at(members, number);
    if (calls.size() < 2) continue;
    const auto& [usual, most] = calls.front();
    for (std::size_t i = 1; i < calls.size(); ++i)
      out.push_back(finding(calls[i].second,
                            fmt::format("at another collective than others in process group {}", group),
                            fmt::format("number {} is {} there, and {} in {}", number, calls[i].first, usual,
                                        counted_others(count_of(most)))));
    return true;
  }
  return false;
}

// The tasks that have not called a collective in which others wait.
void lag(const std::string& group, const Members& members, std::vector<CollectiveFinding>& out) {
  std::uint64_t most = 0;
  for (const Member& each : members) most = std::max(most, each.last());
  Members ahead;
  std::optional<double> since;
  std::map<std::uint64_t, Members> behind;
  for (const Member& each : members) {
    if (each.last() != most) {
      behind[each.last()].push_back(each);
      continue;
    }
    ahead.push_back(each);
    if (each.log->since) since = std::min(since.value_or(*each.log->since), *each.log->since);
  }
  const CollectiveCall* next = most == 0 ? nullptr : ahead.front().at(most);
  if (next == nullptr || behind.empty() || next->state == "completed" || since.value_or(0) < kLeastLag) return;
  for (const auto& [number, these] : behind) {
    const CollectiveCall* own = these.front().at(number);
    out.push_back(
        finding(these,
                fmt::format("at collective {} in process group {}, and {} {} at {}", number, group,
                            counted_others(count_of(ahead)), count_of(ahead) == 1 ? "is" : "are", most),
                fmt::format("{}these wait in {} for {} at least",
                            own == nullptr ? "" : fmt::format("{} is {}, {}; ", number, own->name, own->state),
                            next->name, time_words(*since))));
  }
}

}  // namespace

void fields(auto& io, wire::Of<CollectiveCall> auto& m) {
  io.has("number", m.number);
  io.has("name", m.name);
  io.may_have("sizes", m.sizes);
  io.may_have("state", m.state);
}

void fields(auto& io, wire::Of<CollectiveGroup> auto& m) {
  io.has("name", m.name);
  io.may_have("members", m.members);
  io.has("last", m.last);
}

void fields(auto& io, wire::Of<CollectiveLog> auto& m) {
  io.has("ranks", m.ranks);
  io.has("torch-ranks", m.torch_ranks);
  io.has("groups", m.groups);
  io.may_have("since", m.since);
}

Json CollectiveLog::json() const { return wire::to_json(*this); }

Result<CollectiveLog> CollectiveLog::parse(const Json& json) { return wire::from_json<CollectiveLog>(json); }

Result<CollectiveLog> collectives_in(std::string_view dump, double now) {
  Pickle pickle = TRY(Pickle::read(dump));
  return DumpReader(pickle, now).read();
}

std::vector<CollectiveLog> folded(std::vector<CollectiveLog> logs) {
  std::vector<CollectiveLog> out;
  std::map<std::string, std::size_t> known;  // index in `out`, by the text of the groups
  for (CollectiveLog& each : logs) {
    auto [found, is_new] = known.try_emplace(dump_json(wire::to_json(each.groups)), out.size());
    if (is_new) {
      out.push_back(std::move(each));
      continue;
    }
    CollectiveLog& one = out[found->second];
    one.ranks.insert(each.ranks);
    one.torch_ranks.insert(each.torch_ranks);
    if (one.since && each.since) one.since = std::min(*one.since, *each.since);
    if (!each.since) one.since.reset();
  }
  return out;
}

std::vector<CollectiveFinding> collective_findings(const std::vector<CollectiveLog>& logs) {
  std::map<std::pair<std::string, std::string>, Members> groups;  // by name and members
  for (const CollectiveLog& log : logs) {
    for (const CollectiveGroup& each : log.groups) groups[{each.name, each.members}].push_back({&log, &each});
  }
  std::vector<CollectiveFinding> out;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    if (!differ(key.first, members, out)) lag(key.first, members, out);
  }
  return out;
}

}  // namespace nacre::doctor
