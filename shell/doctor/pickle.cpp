// SPDX-License-Identifier: Apache-2.0
#include "doctor/pickle.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

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

  // Of so many bytes, the least first.
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

  // Where what belongs to the mark begins.
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

  // What is on the stack from there on.
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

}  // namespace nacre::doctor
