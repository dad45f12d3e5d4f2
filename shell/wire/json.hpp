// SPDX-License-Identifier: Apache-2.0
//
// Messages and files in JSON, each described once. A function names the members of an object, or the elements of an
// array, and each back end calls it: so what is written is also read, and the other way round.
//
//   struct Lease { std::uint32_t shell = 0; value::Idset ranks; std::string why; };
//
//   void fields(auto& io, wire::Of<Lease> auto& m) {
//     io.has("shell", m.shell, wire::Between{0, 63});
//     io.has("ranks", m.ranks);
//     io.may_have("why", m.why);
//     io.expect(!m.ranks.empty(), "a rank");
//   }
//
//   wire::to_text(lease)                  {"ranks":"0-3","shell":1}
//   wire::from_text<Lease>(text)          an error: "shell: expected an integer from 0 to 63, got 64"
//
// What a member looks like follows from its type. Numbers, booleans and texts are what they are in JSON. A type
// with str() and parse() is a text. A vector, a set or a pair is an array; a map with texts as keys is an object. A
// Json is written as it is, an optional as its value or null, and a type with a description of its own by that.
//
// A rule behind the member says more. It is a check, called with the place and the value that was read, or an
// object with read(at, value) and, if it is also written in another way, write(value).
//
// The function stands in the namespace of the type, not in an anonymous one, before it is used. After an error all
// other members are left as they are: the first one counts, in the order of the description.
#pragma once

#include <ranges>

#include "base/json.hpp"

namespace nacre::wire {

// M, or const M when it is written.
template <typename M, typename T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

// Whether `io` reads: for code that only a reader needs, or that does not compile for a writer.
template <typename IO>
inline constexpr bool kReads = std::remove_reference_t<IO>::kIsReader;

class ObjectWriter;
class ArrayWriter;

template <typename T>
concept HasFields = requires(ObjectWriter& io, const T& value) {
  fields(io, value);
};
template <typename T>
concept HasElements = requires(ArrayWriter& io, const T& value) {
  elements(io, value);
};
template <typename T>
concept IsText = requires(const T& value, std::string_view text) {
  { value.str() } -> std::convertible_to<std::string>;
  { T::parse(text) } -> std::same_as<Result<T>>;
};
template <typename T>
concept IsOptional = std::same_as<T, std::optional<typename T::value_type>>;
template <typename T>
concept IsPair = std::same_as<T, std::pair<typename T::first_type, typename T::second_type>>;
template <typename T>
concept IsMap = requires {
  typename T::mapped_type;
};
template <typename T>
concept IsList = std::ranges::range<T> && !std::same_as<T, std::string> && !std::same_as<T, Json> && !IsText<T>;

// ---- rules ------------------------------------------------------------------------------------

// A whole number from `least` to `most`. Without it, all that the type can hold.
struct Between {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  template <typename T>
  Result<void> read(const JsonAt& at, T& value) const {
    auto number = at.integer(least, most);
    if (!number) return std::move(number).error();
    value = static_cast<T>(*number);
    return {};
  }
};

// A number that is written as a whole number of parts: `scale` of them are 1. At most `most`.
struct Scaled {
  double scale;
  std::int64_t most;

  [[nodiscard]] Json write(double value) const { return Json(std::llround(value * scale)); }
  Result<void> read(const JsonAt& at, double& value) const {
    auto number = at.integer(0, most);
    if (!number) return std::move(number).error();
    value = static_cast<double>(*number) / scale;
    return {};
  }
};

// True as 1, false as 0.
struct Bit {
  [[nodiscard]] Json write(bool value) const { return Json(value ? 1 : 0); }
  Result<void> read(const JsonAt& at, bool& value) const {
    auto number = at.integer(0, 1);
    if (!number) return std::move(number).error();
    value = *number == 1;
    return {};
  }
};

// A member that is ignored if it is wrong by this rule, or by its type.
template <typename... Rule>
struct Lenient {
  std::tuple<Rule...> rule;

  template <typename T>
  Json write(const T& value) const;
  template <typename T>
  Result<void> read(const JsonAt& at, T& value) const;
};
template <typename... Rule>
Lenient(Rule...) -> Lenient<Rule...>;
template <typename T>
inline constexpr bool kIsLenient = false;
template <typename... Rule>
inline constexpr bool kIsLenient<Lenient<Rule...>> = true;

// The words of an enum, or of a bool, in the order of its values. Any other word is an error: `expected WANT, got
// VALUE`, where WANT is `one of` all words unless it is given, or `why` as a whole.
class Words {
 public:
  template <std::size_t N>
  constexpr explicit Words(const std::array<std::string_view, N>& words, const char* want = nullptr,
                           const char* why = nullptr)
      : words_(words.data()), count_(N), want_(want), why_(why) {}

  template <typename E>
  Json write(const E& value) const {
    return Json(words_[static_cast<std::size_t>(value)]);
  }
  template <typename E>
  Result<void> read(const JsonAt& at, E& value) const {
    auto index = find(at);
    if (!index) return std::move(index).error();
    value = static_cast<E>(*index);
    return {};
  }

 private:
  [[nodiscard]] Result<std::size_t> find(const JsonAt& at) const;

  const std::string_view* words_;
  std::size_t count_;
  const char* want_;
  const char* why_;
};

// The element type of a list; for a map, pairs that can be assigned.
template <typename T>
struct ElementOf {
  using Type = typename T::value_type;
};
template <typename T>
requires requires { typename T::mapped_type; }
struct ElementOf<T> {
  using Type = std::pair<typename T::key_type, typename T::mapped_type>;
};
template <typename T>
using Element = typename ElementOf<T>::Type;

// Each element of a list by this rule.
template <typename Rule>
struct Each {
  Rule rule;

  template <typename T>
  Json write(const T& values) const;
  template <typename T>
  Result<void> read(const JsonAt& at, T& values) const;
};
template <typename Rule>
Each(Rule) -> Each<Rule>;

// An object, or an array, that is described in place by a function called as fields() and elements() are: for a
// type that looks different in different messages, or whose limits are only known there.
template <typename Describe>
struct Object {
  Describe describe;

  template <typename T>
  Json write(const T& value) const;
  template <typename T>
  Result<void> read(const JsonAt& at, T& value) const;
};
template <typename Describe>
Object(Describe) -> Object<Describe>;

template <typename Describe>
struct Array {
  Describe describe;

  template <typename T>
  Json write(const T& value) const;
  template <typename T>
  Result<void> read(const JsonAt& at, T& value) const;
};
template <typename Describe>
Array(Describe) -> Array<Describe>;

// An Error.
inline constexpr Object kAnError{[](auto& io, auto& m) {
  io.has("code", m.code);
  io.has("message", m.message);
}};

// A Json that has to be an object.
inline constexpr auto kAnObject = [](const JsonAt& at, const Json& value) -> Result<void> {
  if (!value.is_object()) return at.expected("an object");
  return {};
};

// ---- back ends --------------------------------------------------------------------------------

template <typename M, typename... More>
Result<M> from_json(const JsonAt& at, const More&... more);
template <typename T>
Json to_json(const T& value);
template <typename T, typename Rule>
Json to_json(const T& value, const Rule& rule);
template <typename T>
Result<void> read(const JsonAt& at, T& value);
template <typename T, typename Rule>
Result<void> read(const JsonAt& at, T& value, const Rule& rule);

// Whether may_have() leaves the member out: it is 0, false, "", empty, null, none, or the first value of an enum.
template <typename T>
bool is_none(const T& value) {
  if constexpr (IsOptional<T>) {
    return !value.has_value();
  } else if constexpr (std::same_as<T, Json>) {
    return value.is_null();
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return value == T{};
  }
}

// What only a reader does.
class NoChecks {
 public:
  static constexpr bool kIsReader = false;

  // A reader refuses members that the description does not have.
  template <typename M>
  void refuse_others(const M& /*message*/) {}
  // If `ok` is false a reader reports an error in the whole message: `PATH: expected WANT, got VALUE`.
  void expect(bool /*ok*/, const char* /*want*/) {}
  // If `ok` is false a reader reports an error in the member `key`: `PATH.KEY: WHY`; `why` may be a function that
  // makes the text.
  template <typename Why>
  void check(const char* /*key*/, bool /*ok*/, const Why& /*why*/) {}
  // If `ok` is false the whole message is an error; `why` is its text, or makes it.
  template <typename Why>
  void require(bool /*ok*/, const Why& /*why*/) {}
  // A reader takes exactly one of these members: the error `expected one of A, B and C` comes before theirs.
  void has_one_of(std::initializer_list<const char*> /*keys*/) {}
};

class ObjectWriter : public NoChecks {
 public:
  // A member that is always there.
  template <typename T, typename... Rule>
  void has(const char* key, const T& value, const Rule&... rule) {
    out_[key] = wire::to_json(value, rule...);
  }
  // A member that is only there if `is_there`; if it is not, a reader leaves it as it is in a new message.
  template <typename T, typename... Rule>
  void has_if(bool is_there, const char* key, const T& value, const Rule&... rule) {
    if (is_there) has(key, value, rule...);
  }
  // A member that is left out if it is_none().
  template <typename T, typename... Rule>
  void may_have(const char* key, const T& value, const Rule&... rule) {
    has_if(!wire::is_none(value), key, value, rule...);
  }
  // A member that is always written, and that a reader does not require.
  template <typename T, typename... Rule>
  void may_lack(const char* key, const T& value, const Rule&... rule) {
    has(key, value, rule...);
  }

  [[nodiscard]] Json take() && { return std::move(out_); }

 private:
  Json out_ = Json::object();
};

class ArrayWriter {
 public:
  static constexpr bool kIsReader = false;

  // The next element.
  template <typename T, typename... Rule>
  void has(const T& value, const Rule&... rule) {
    out_.push_back(wire::to_json(value, rule...));
  }
  // Whether there are more elements, if elements may be left out at the end: `wanted` for a writer. A reader has at
  // least one, or exactly as many as `count` says.
  [[nodiscard]] static bool has_more(bool wanted, std::size_t /*count*/ = 0) { return wanted; }
  // A reader takes no other number of elements: the error has `want`. With `others` it ignores further elements.
  enum class Others : std::uint8_t { refuse, ignore };
  void are(const char* /*want*/, Others /*others*/ = Others::refuse) {}
  void expect(bool /*ok*/, const char* /*want*/) {}

  [[nodiscard]] Json take() && { return std::move(out_); }

 private:
  Json out_ = Json::array();
};

// Keeps the first error.
class ErrorKeeper {
 public:
  static constexpr bool kIsReader = true;

  explicit ErrorKeeper(JsonAt at) : at_(std::move(at)) {}
  void expect(bool ok, const char* want) {
    if (!ok && !error_) error_ = at_.expected(want);
  }
  // The value that is read, for checks that no member can express.
  [[nodiscard]] const JsonAt& at() const { return at_; }

 protected:
  void keep(Result<void> result) {
    if (!result) error_ = std::move(result).error();
  }

  JsonAt at_;
  std::optional<Error> error_;
};

class ObjectReader : public ErrorKeeper {
 public:
  using ErrorKeeper::ErrorKeeper;

  template <typename T, typename... Rule>
  void has(const char* key, T& value, const Rule&... rule) {
    if (auto at = find(key, true)) keep(wire::read(*at, value, rule...));
  }
  template <typename T, typename... Rule>
  void has_if(bool /*is_there*/, const char* key, T& value, const Rule&... rule) {
    if (auto at = find(key, false)) keep(wire::read(*at, value, rule...));
  }
  template <typename T, typename... Rule>
  void may_have(const char* key, T& value, const Rule&... rule) {
    has_if(false, key, value, rule...);
  }
  template <typename T, typename... Rule>
  void may_lack(const char* key, T& value, const Rule&... rule) {
    may_have(key, value, rule...);
  }
  template <typename M>
  void refuse_others(const M& message);
  template <typename Why>
  void check(const char* key, bool ok, const Why& why) {
    if (ok || error_) return;
    if constexpr (std::invocable<const Why&>) {
      refuse(key, why());
    } else {
      refuse(key, why);
    }
  }
  template <typename Why>
  void require(bool ok, const Why& why) {
    if (ok || error_) return;
    if constexpr (std::same_as<std::invoke_result_t<const Why&>, Error>) {
      error_ = why();
    } else {
      error_ = invalid(why());
    }
  }
  void has_one_of(std::initializer_list<const char*> keys);
  [[nodiscard]] Result<void> end() &&;

 private:
  [[nodiscard]] std::optional<JsonAt> find(const char* key, bool must);
  void refuse(const char* key, std::string_view why);
};

class ArrayReader : public ErrorKeeper {
 public:
  explicit ArrayReader(const JsonAt& at);

  template <typename T, typename... Rule>
  void has(T& value, const Rule&... rule) {
    if (const JsonAt* at = next()) keep(wire::read(*at, value, rule...));
  }
  [[nodiscard]] bool has_more(bool /*wanted*/, std::size_t count = 0) const {
    std::size_t left = error_ ? 0 : elements_.size() - next_;
    return count == 0 ? left > 0 : left == count;
  }
  using Others = ArrayWriter::Others;
  void are(const char* want, Others others = Others::refuse) {
    want_ = want;
    others_ = others;
  }
  [[nodiscard]] Result<void> end() &&;

 private:
  const JsonAt* next();

  std::vector<JsonAt> elements_;
  std::size_t next_ = 0;
  const char* want_ = "another number of elements";
  Others others_ = Others::refuse;
};

// Only the names.
class KeyList : public NoChecks {
 public:
  template <typename T, typename... Rule>
  void has(const char* key, const T& /*value*/, const Rule&... /*rule*/) {
    keys_.emplace_back(key);
  }
  template <typename T, typename... Rule>
  void has_if(bool /*is_there*/, const char* key, const T& value, const Rule&... /*rule*/) {
    has(key, value);
  }
  template <typename T, typename... Rule>
  void may_have(const char* key, const T& value, const Rule&... /*rule*/) {
    has(key, value);
  }
  template <typename T, typename... Rule>
  void may_lack(const char* key, const T& value, const Rule&... /*rule*/) {
    has(key, value);
  }

  [[nodiscard]] const std::vector<std::string_view>& keys() const { return keys_; }

 private:
  std::vector<std::string_view> keys_;
};

template <typename M>
void ObjectReader::refuse_others(const M& message) {
  if (error_) return;
  KeyList list;
  fields(list, message);
  keep(at_.only_keys(list.keys()));
}

// ---- values -----------------------------------------------------------------------------------

template <typename T>
Json to_json(const T& value) {
  if constexpr (HasElements<T>) {
    return Array{[](auto& io, const T& m) { elements(io, m); }}.write(value);
  } else if constexpr (HasFields<T>) {
    return Object{[](auto& io, const T& m) { fields(io, m); }}.write(value);
  } else if constexpr (IsOptional<T>) {
    return value ? wire::to_json(*value) : Json();
  } else if constexpr (IsText<T>) {
    return Json(value.str());
  } else if constexpr (IsPair<T>) {
    return Json::array({wire::to_json(value.first), wire::to_json(value.second)});
  } else if constexpr (IsMap<T>) {
    Json out = Json::object();
    for (const auto& [key, each] : value) out[key] = wire::to_json(each);
    return out;
  } else if constexpr (IsList<T>) {
    Json out = Json::array();
    for (const auto& each : value) out.push_back(wire::to_json(each));
    return out;
  } else {
    return Json(value);
  }
}

template <typename T, typename Rule>
Json to_json(const T& value, const Rule& rule) {
  if constexpr (IsOptional<T>) {
    return value ? wire::to_json(*value, rule) : Json();
  } else if constexpr (requires { rule.write(value); }) {
    return rule.write(value);
  } else {
    return wire::to_json(value);
  }
}

// Puts the value of a Result into `to`.
template <typename From, typename To>
Result<void> take(Result<From> from, To& to) {
  if (!from) return std::move(from).error();
  to = *std::move(from);
  return {};
}

template <typename Text, typename To>
Result<void> read_text(const JsonAt& at, To& to) {
  auto text = at.string();
  if (!text) return std::move(text).error();
  return wire::take(in(at.path(), Text::parse(*text)), to);
}

template <typename T>
Result<void> read(const JsonAt& at, T& value) {
  if constexpr (HasElements<T>) {
    return Array{[](auto& io, T& m) { elements(io, m); }}.read(at, value);
  } else if constexpr (HasFields<T>) {
    return Object{[](auto& io, T& m) { fields(io, m); }}.read(at, value);
  } else if constexpr (IsOptional<T>) {
    value.reset();
    if (at.json().is_null()) return {};
    using Value = typename T::value_type;
    if constexpr (IsText<Value>) {
      return wire::read_text<Value>(at, value);
    } else {
      return wire::take(wire::from_json<Value>(at), value);
    }
  } else if constexpr (std::same_as<T, Json>) {
    value = at.json();
    return {};
  } else if constexpr (std::same_as<T, bool>) {
    return wire::take(at.boolean(), value);
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    constexpr bool kFits = std::cmp_less_equal(Limits::max(), kMost);
    return Between{static_cast<std::int64_t>(Limits::min()),
                   kFits ? static_cast<std::int64_t>(Limits::max()) : kMost}
        .read(at, value);
  } else if constexpr (std::floating_point<T>) {
    return wire::take(at.number(), value);
  } else if constexpr (std::same_as<T, std::string>) {
    return wire::take(at.string(), value);
  } else if constexpr (IsText<T>) {
    return wire::read_text<T>(at, value);
  } else if constexpr (IsPair<T>) {
    auto both = at.elements();
    if (!both) return std::move(both).error();
    if (both->size() != 2) return at.expected("two elements");
    auto first = wire::read((*both)[0], value.first);
    return first ? wire::read((*both)[1], value.second) : first;
  } else if constexpr (IsMap<T>) {
    auto all = at.members();
    if (!all) return std::move(all).error();
    for (const auto& [key, each] : *all) {
      if (auto one = wire::read(each, value[key]); !one) return one;
    }
    return {};
  } else {
    return Each{[](const JsonAt&, const auto&) { return Result<void>(); }}.read(at, value);
  }
}

template <typename T, typename Rule>
Result<void> read(const JsonAt& at, T& value, const Rule& rule) {
  if constexpr (kIsLenient<Rule>) {
    return rule.read(at, value);
  } else if constexpr (IsOptional<T>) {
    value.reset();
    if (at.json().is_null()) return {};
    typename T::value_type found{};
    auto done = wire::read(at, found, rule);
    if (done) value = std::move(found);
    return done;
  } else if constexpr (requires { rule.read(at, value); }) {
    return rule.read(at, value);
  } else {
    if (auto done = wire::read(at, value); !done) return done;
    return rule(at, std::as_const(value));
  }
}

template <typename... Rule>
template <typename T>
Json Lenient<Rule...>::write(const T& value) const {
  return std::apply([&](const auto&... of) { return wire::to_json(value, of...); }, rule);
}

template <typename... Rule>
template <typename T>
Result<void> Lenient<Rule...>::read(const JsonAt& at, T& value) const {
  T found{};
  if (std::apply([&](const auto&... of) { return wire::read(at, found, of...).has_value(); }, rule))
    value = std::move(found);
  return {};
}

template <typename Describe>
template <typename T>
Json Object<Describe>::write(const T& value) const {
  ObjectWriter io;
  describe(io, value);
  return std::move(io).take();
}

template <typename Describe>
template <typename T>
Result<void> Object<Describe>::read(const JsonAt& at, T& value) const {
  ObjectReader io(at);
  describe(io, value);
  return std::move(io).end();
}

template <typename Describe>
template <typename T>
Json Array<Describe>::write(const T& value) const {
  ArrayWriter io;
  describe(io, value);
  return std::move(io).take();
}

template <typename Describe>
template <typename T>
Result<void> Array<Describe>::read(const JsonAt& at, T& value) const {
  ArrayReader io(at);
  describe(io, value);
  return std::move(io).end();
}

template <typename Rule>
template <typename T>
Json Each<Rule>::write(const T& values) const {
  Json out = Json::array();
  for (const auto& each : values) out.push_back(wire::to_json(each, rule));
  return out;
}

template <typename Rule>
template <typename T>
Result<void> Each<Rule>::read(const JsonAt& at, T& values) const {
  auto all = at.elements();
  if (!all) return std::move(all).error();
  values = {};
  for (const JsonAt& each : *all) {
    Element<T> value{};
    if (auto one = wire::read(each, value, rule); !one) return one;
    values.insert(values.end(), std::move(value));
  }
  return {};
}

// ---- whole messages ---------------------------------------------------------------------------

// `more` is passed to fields() after the message: what the reader or writer knows, and the message does not.

template <typename M, typename... More>
std::string to_text(const M& message, const More&... more) {
  if constexpr (sizeof...(More) > 0) {
    return dump_json(Object{[&](auto& io, const M& m) { fields(io, m, more...); }}.write(message));
  } else {
    return dump_json(wire::to_json(message));
  }
}

template <typename M, typename... More>
Result<M> from_json(const JsonAt& at, const More&... more) {
  M out{};
  Result<void> done;
  if constexpr (sizeof...(More) > 0) {
    done = Object{[&](auto& io, M& m) { fields(io, m, more...); }}.read(at, out);
  } else {
    done = wire::read(at, out);
  }
  if (!done) return std::move(done).error();
  return out;
}
template <typename M, typename... More>
Result<M> from_json(const Json& json, const More&... more) {
  return wire::from_json<M>(JsonAt::root(json), more...);
}
template <typename M, typename... More>
Result<M> from_text(std::string_view text, const More&... more) {
  auto json = parse_json(text);
  if (!json) return std::move(json).error();
  return wire::from_json<M>(JsonAt::root(*json), more...);
}

}  // namespace nacre::wire
