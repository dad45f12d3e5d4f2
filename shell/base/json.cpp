// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

namespace nacre {
namespace {

constexpr std::size_t kShownMax = 40;  // bytes of a value in an error

// Builds the document as the library's own parser does, but notes where it failed and limits the depth.
class Builder : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  explicit Builder(Json& document) : Base(document, false) {}

  bool start_object(std::size_t n) { return deeper() && Base::start_object(n); }
  bool start_array(std::size_t n) { return deeper() && Base::start_array(n); }
  bool end_object() { return --depth_, Base::end_object(); }
  bool end_array() { return --depth_, Base::end_array(); }

  template <typename Exception>
  bool parse_error(std::size_t position, const std::string& token, const Exception& why) {
    position_ = position;
    why_ = why.what();
    return Base::parse_error(position, token, why);
  }

  [[nodiscard]] bool too_deep() const { return too_deep_; }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  bool deeper() {
    too_deep_ = ++depth_ > kMaxJsonDepth;
    return !too_deep_;
  }

  int depth_ = 0;
  bool too_deep_ = false;
  std::size_t position_ = 0;
  std::string why_;
};

// The last part of a text such as "[json.exception...] parse error at line 1, column 2: syntax error while parsing
// value - invalid literal; ..."
std::string reason(const std::string& why) {
  std::size_t dash = why.find(" - ");
  std::string text = dash == std::string::npos ? "syntax error" : why.substr(dash + 3);
  return text;
}

std::string at_place(std::string_view text, std::size_t position) {
  std::string_view before = text.substr(0, std::min(position == 0 ? 0 : position - 1, text.size()));
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  std::size_t newline = before.rfind('\n');
  std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("line {}, column {}", line, column);
}

std::string type_of(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  std::string shown = dump_json(value);
  if (shown.size() > kShownMax) shown = shown.substr(0, kShownMax) + "...";
  return shown;
}

std::string element(const std::string& path, std::size_t index) { return fmt::format("{}[{}]", path, index); }

std::string member(const std::string& path, std::string_view key) {
  std::string out;
  out.reserve(path.size() + 1 + key.size());
  if (!path.empty()) out.append(path) += '.';
  return out.append(key);
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  Json root;
  Builder builder(root);
  bool ok = Json::sax_parse(text.begin(), text.end(), &builder);
  if (builder.too_deep()) return invalid(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  if (!ok)
    return invalid(fmt::format("not JSON: {}: {}", at_place(text, builder.position()), reason(builder.why())));
  return root;
}

std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<JsonAt> JsonAt::at(std::string_view key) const {
  auto found = TRY(find(key));
  if (!found) return error(fmt::format("missing key '{}'", key));
  return *found;
}

Result<std::optional<JsonAt>> JsonAt::find(std::string_view key) const {
  if (!value_->is_object()) return expected("an object");
  auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::optional<JsonAt>();
  return std::optional<JsonAt>(JsonAt(*it, member(path_, key)));
}

Result<std::vector<JsonAt>> JsonAt::elements() const {
  if (!value_->is_array()) return expected("an array");
  std::vector<JsonAt> out;
  out.reserve(value_->size());
  for (const Json& each : *value_) out.push_back(JsonAt(each, element(path_, out.size())));
  return out;
}

Result<std::vector<std::pair<std::string, JsonAt>>> JsonAt::members() const {
  if (!value_->is_object()) return expected("an object");
  std::vector<std::pair<std::string, JsonAt>> out;
  out.reserve(value_->size());
  for (auto it = value_->begin(); it != value_->end(); ++it) {
    out.emplace_back(it.key(), JsonAt(it.value(), member(path_, it.key())));
  }
  return out;
}

Result<std::int64_t> JsonAt::integer(std::int64_t min, std::int64_t max) const {
  bool fits = value_->is_number_integer();
  if (fits && value_->is_number_unsigned()) {
    fits = value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  if (fits) {
    auto value = value_->get<std::int64_t>();
    if (value >= min && value <= max) return value;
  }
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  if (min == kMin && max == kMax) return expected("an integer");
  if (min == 1 && max == kMax) return expected("a positive integer");
  if (max == kMax) return expected(fmt::format("an integer of at least {}", min));
  return expected(fmt::format("an integer from {} to {}", min, max));
}

Result<double> JsonAt::number() const {
  if (!value_->is_number()) return expected("a number");
  return value_->get<double>();
}

Result<bool> JsonAt::boolean() const {
  if (!value_->is_boolean()) return expected("true or false");
  return value_->get<bool>();
}

Result<std::string> JsonAt::string() const {
  if (!value_->is_string()) return expected("a string");
  return value_->get<std::string>();
}

Result<std::vector<std::string>> JsonAt::strings() const {
  std::vector<std::string> out;
  for (const JsonAt& each : TRY(elements())) out.push_back(TRY(each.string()));
  return out;
}

Result<void> JsonAt::only_keys(std::span<const std::string_view> known) const {
  for (const auto& [key, value] : TRY(members())) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return value.error(fmt::format("unknown key; known: {}", fmt::join(known, ", ")));
    }
  }
  return {};
}

Error JsonAt::expected(std::string_view want) const {
  return error(fmt::format("expected {}, got {}", want, type_of(*value_)));
}

}  // namespace nacre
